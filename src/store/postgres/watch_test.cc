#include "client/postgres/notifications.h"
#include "outbox/outbox.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

class PostgresWatchTest : public PostgresTest {
 protected:
  // Watching, once it hears.
  std::unique_ptr<Watch> watch(Store& store) {
    auto watch = store.watch([this] { seen_.raise(); });
    EXPECT_NE(watch, nullptr);
    EXPECT_TRUE(seen_.wait());
    return watch;
  }

  testing::Signal seen_;
};

// A slow server was once paid back with a silence of eight times as long.
TEST_F(PostgresWatchTest, ASlowNotificationDelaysTheNextByNoMoreThanItselfWhichTellsOfAllCommits) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto reads = open_store();
  const auto watched = watch(*reads);
  auto config = std::make_shared<StoreConfig>(test::with_port(test::postgres_url(), proxy.port()));
  config->channel = "outbox:" + table();
  Notifier notifier(config, config->channel);
  notifier.committed();
  ASSERT_TRUE(seen_.wait(2));

  proxy.stall();
  const auto resumes = std::chrono::steady_clock::now() + 1s;
  int commits = 0;
  for (; std::chrono::steady_clock::now() < resumes; ++commits) {
    notifier.committed();
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_EQ(seen_.count(), 2U);
  proxy.resume();
  // One was under way and one tells of the rest; the two may be heard as one.
  ASSERT_TRUE(seen_.wait(3));
  notifier.committed();
  EXPECT_TRUE(seen_.wait(4, 4s));
  EXPECT_GT(commits, 5);
  EXPECT_LE(seen_.count(), 5U);
}

TEST_F(PostgresWatchTest, WhatCouldNotBeToldIsToldWhenTheConnectionIsBack) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto reads = open_store();
  const auto watched = watch(*reads);
  auto config = std::make_shared<StoreConfig>(test::with_port(test::postgres_url(), proxy.port()));
  config->channel = "outbox:" + table();
  proxy.refuse();
  Notifier notifier(config, config->channel);
  notifier.committed();
  EXPECT_FALSE(seen_.wait(2, 300ms));
  proxy.admit();
  EXPECT_TRUE(seen_.wait(2));
}

TEST_F(PostgresWatchTest, TablesDoNotWakeEachOther) {
  const auto writes = open_store();
  const auto other =
      postgres::open(test::postgres_url(), {.table = schema() + ".other", .log = log_.log()});
  const auto watched = watch(*other);
  const std::size_t before = seen_.count();
  write_event(*writes, simple_event("e"));
  EXPECT_FALSE(seen_.wait(before + 1, 200ms));
}

TEST_F(PostgresWatchTest, AfterACutItHearsAgainAndIsCalledOnceForTheGap) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto writes = open_store();
  const auto reads = open_store_at(test::with_port(test::postgres_url(), proxy.port()));
  const auto watched = watch(*reads);
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = seen_.count();
    proxy.refuse();
    proxy.cut();
    {
      // Ends when all has been told: a notification that comes late is heard as well.
      const auto others = open_store();
      for (int n = 0; n < 5; ++n) {
        write_event(*others, simple_event(std::to_string(i) + "." + std::to_string(n)));
      }
    }
    EXPECT_EQ(seen_.count(), before);
    proxy.admit();
    EXPECT_TRUE(seen_.wait(before + 1));
    EXPECT_FALSE(seen_.wait(before + 2, 100ms)) << "once is enough";
    write_event(*writes, simple_event(std::to_string(i)));
    EXPECT_TRUE(seen_.wait(before + 2));
  }
  EXPECT_TRUE(log_.lines().empty()) << log_.lines().front().text;
}

TEST_F(PostgresWatchTest, WithoutNotifyThereIsNoWatch) {
  EXPECT_EQ(open_store({.notify = false})->watch([] {}), nullptr);
}

TEST_F(PostgresWatchTest, BehindAPoolerItSaysOnceThatNothingComesThroughAndPollingDelivers) {
  OUTBOX_NEEDS_PGBOUNCER();
  const auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  const auto pooled = [&] { return open_store_at(test::pgbouncer_url(), {.prepare = false}); };
  outbox::Options options{.mode = Mode::multi_node, .log = log_.log()};
  options.poll_interval = 200ms;
  Outbox box(pooled(), listeners, std::move(options));
  box.start();
  const auto said = [&] {
    int times = 0;
    for (const auto& line : log_.lines()) {
      times += line.text.find("notifications do not come through") != std::string::npos ? 1 : 0;
    }
    return times;
  };
  EXPECT_TRUE(eventually([&] { return said() > 0; }));

  const auto elsewhere = pooled();
  for (int i = 0; i < 5; ++i) write_event(*elsewhere, simple_event(std::to_string(i)));
  EXPECT_TRUE(listener->wait_for(5));
  auto tx = box.begin();
  tx.write({.type = "Happened", .payload = json("{}")});
  tx.commit();
  EXPECT_TRUE(listener->wait_for(6));
  EXPECT_TRUE(box.wait_idle(20s));
  EXPECT_EQ(said(), 1);
}

}  // namespace
}  // namespace outbox::postgres
