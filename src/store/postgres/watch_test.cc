// How commits are told of, and heard of.
#include <libpq-fe.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "client/postgres/notifications.h"
#include "outbox/outbox.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

// So long that whatever arrives was told of.
constexpr auto kHardlyEver = 10min;
constexpr auto kSoon = 2s;

// Hears the notifications of a channel, and no notifier knows of it.
class Eavesdropper {
 public:
  explicit Eavesdropper(std::string channel) : channel_(std::move(channel)) {
    ear_.execute("LISTEN \"" + channel_ + "\"");
  }

  // How many were sent since the last time. They come in the order of their commits.
  int count() {
    test::Sql().execute("SELECT pg_notify('" + channel_ + "', 'the end')");
    for (int count = 0;;) {
      while (PGnotify* const notification = PQnotifies(ear_.handle())) {
        const bool end = std::string_view(notification->extra) == "the end";
        PQfreemem(notification);
        if (end) return count;
        ++count;
      }
      pollfd socket{.fd = PQsocket(ear_.handle()), .events = POLLIN, .revents = 0};
      if (poll(&socket, 1, 20'000) <= 0 || PQconsumeInput(ear_.handle()) == 0) return -1;
    }
  }

 private:
  const std::string channel_;
  test::Sql ear_;
};

class PostgresWatchTest : public PostgresTest {
 protected:
  std::string channel() const { return "outbox:" + table(); }

  // Watching, once all notifiers must have noticed.
  std::unique_ptr<Watch> watch(Store& store) {
    auto watch = store.watch([this] { seen_.raise(); });
    EXPECT_NE(watch, nullptr);
    EXPECT_TRUE(seen_.wait());
    EXPECT_TRUE(eventually([&] { return !looks_for_itself(); }));
    return watch;
  }

  // Whether a watch calls although nothing happens.
  bool looks_for_itself() {
    const std::size_t before = seen_.count();
    return seen_.wait(before + 1, 200ms);
  }

  std::shared_ptr<Notifier> notifier_at(int port) {
    return std::make_shared<Notifier>(
        std::make_shared<StoreConfig>(test::with_port(test::postgres_url(), port)), channel());
  }

  // How many watches the server knows of.
  std::string known_listeners() {
    return sql().value(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32) | "
        "objid::bigint = hashtextextended('" +
        channel() + "', 0)");
  }

  std::unique_ptr<Outbox> box_on(std::shared_ptr<Store> store, Mode mode = Mode::single_node) {
    outbox::Options options{.mode = mode, .log = log_.log()};
    options.poll_interval = kHardlyEver;
    Listeners listeners;
    if (mode != Mode::writer_only) listeners.add(kGlobalAggregate, "Happened", delivered_);
    return std::make_unique<Outbox>(std::move(store), listeners, std::move(options));
  }

  // Started, and no notifier can be unaware of it.
  std::unique_ptr<Outbox> settled(std::unique_ptr<Outbox> box) {
    const std::string before = known_listeners();
    box->start();
    EXPECT_TRUE(eventually([&] { return known_listeners() != before; }));
    std::this_thread::sleep_for(1'300ms);
    return box;
  }

  void write(Writer& writer) {
    auto tx = writer.begin();
    tx.write({.type = "Happened", .payload = json("{}")});
    tx.commit();
    ++written_;
  }
  bool all_arrive_soon() { return delivered_->wait_for(written_, kSoon); }

  testing::Signal seen_;
  std::shared_ptr<testing::RecordingListener> delivered_ =
      std::make_shared<testing::RecordingListener>();
  std::size_t written_ = 0;
};

// --- Who is told ---

TEST_F(PostgresWatchTest, WhileNobodyListensNothingIsSent) {
  auto store = open_store();
  Eavesdropper eavesdropper(channel());
  for (int i = 0; i < 20; ++i) write_event(*store, simple_event(std::to_string(i)));
  store.reset();  // ends when all has been told
  EXPECT_EQ(eavesdropper.count(), 0);
}

TEST_F(PostgresWatchTest, AnEngineThatIsAloneIsWokenByItsWritersWithoutANotification) {
  Eavesdropper eavesdropper(channel());
  {
    const auto box = settled(box_on(open_store()));
    eavesdropper.count();  // that of the probe
    for (int i = 0; i < 20; ++i) write(box->writer());
    EXPECT_TRUE(all_arrive_soon());
  }
  EXPECT_EQ(eavesdropper.count(), 0);
}

TEST_F(PostgresWatchTest, AnEngineIsToldByAWriterThatIsNotItsOwnThoughTheyShareTheStore) {
  const auto store = open_store();
  const auto box = settled(box_on(store));
  Writer writer(store);
  const auto only_writes = box_on(store, Mode::writer_only);
  for (int i = 0; i < 3; ++i) {
    write(writer);
    EXPECT_TRUE(all_arrive_soon()) << i;
    write(only_writes->writer());
    EXPECT_TRUE(all_arrive_soon()) << i;
    write(box->writer());
    EXPECT_TRUE(all_arrive_soon()) << i;
  }
}

TEST_F(PostgresWatchTest, OfTwoInOneProcessEachIsToldOfTheOthersCommits) {
  const auto shared = open_store();
  for (const auto& other : {shared, open_store()}) {
    const auto first = settled(box_on(shared));
    const auto second = settled(box_on(other));
    ASSERT_TRUE(first->owner());
    for (Outbox* const writes : {second.get(), first.get()}) {
      write(writes->writer());
      EXPECT_TRUE(all_arrive_soon());
    }
  }
}

TEST_F(PostgresWatchTest, WhoTakesOverIsToldAtOnce) {
  const auto writes = open_store();
  Writer writer(writes);
  auto first = settled(box_on(open_store()));
  const auto second = settled(box_on(open_store()));
  ASSERT_TRUE(first->owner());
  write(writer);
  EXPECT_TRUE(all_arrive_soon());
  first.reset();
  ASSERT_TRUE(eventually([&] { return second->owner(); }));
  for (int i = 0; i < 3; ++i) {
    write(writer);
    EXPECT_TRUE(all_arrive_soon()) << i;
  }
}

TEST_F(PostgresWatchTest, WhatTheWriterHasToldIsNotToldAgainAndOthersAreTold) {
  const auto store = open_store();
  testing::Signal other_seen;
  const auto watched = watch(*store);
  const auto other = open_store()->watch([&] { other_seen.raise(); });
  ASSERT_TRUE(other_seen.wait());
  std::this_thread::sleep_for(1'300ms);  // until it has been noticed
  const std::size_t before = seen_.count();
  const std::size_t other_before = other_seen.count();
  const auto connection = store->connect();
  const Event told = simple_event("told");
  connection->begin();
  connection->insert({&told, 1}, {.told = watched.get()});
  connection->commit();
  EXPECT_TRUE(other_seen.wait(other_before + 1));
  EXPECT_FALSE(seen_.wait(before + 1, 100ms));

  // Of one transaction with both.
  const Event untold = simple_event("untold");
  const Event told_too = simple_event("told, too");
  connection->begin();
  connection->insert({&untold, 1}, {});
  connection->insert({&told_too, 1}, {.told = watched.get()});
  connection->commit();
  EXPECT_TRUE(seen_.wait(before + 1));
}

// Whether the writer has looked a moment ago, and finds out late, or is about to look.
TEST_F(PostgresWatchTest, AnEngineThatJoinsWhileOthersWriteHearsOfEveryEventSoon) {
  const auto store = open_store();
  Writer writer(store);
  for (int i = 0; i < 2; ++i) {
    write(writer);  // a look, which shows nobody
    const auto box = box_on(open_store());
    box->start();
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    const auto until = steady_clock::now() + 1'500ms;
    while (steady_clock::now() < until) {
      write(writer);
      ASSERT_TRUE(all_arrive_soon());
      std::this_thread::sleep_for(std::chrono::milliseconds{20 + 7 * i});
    }
  }
}

TEST_F(PostgresWatchTest, WhenNobodyListensAnyMoreNothingIsSentAfterASecond) {
  const auto store = open_store();
  Writer writer(store);
  settled(box_on(open_store())).reset();
  ASSERT_TRUE(eventually([&] { return known_listeners() == "0"; }));
  Eavesdropper eavesdropper(channel());
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 10; ++i) write(writer);
    return eavesdropper.count() == 0;
  }));
  auto last = open_store();
  write_event(*last, simple_event("e"));
  last.reset();
  EXPECT_EQ(eavesdropper.count(), 0);
}

// Before this process has a thread of its own.
TEST_F(PostgresWatchTest, AProcessThatWasForkedOffTellsItsParent) {
  const auto threads = std::filesystem::directory_iterator("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) > 1) GTEST_SKIP() << "other tests left threads";
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    try {
      if (read(go[0], &byte, 1) == 1) {
        const auto store = postgres::open(test::postgres_url(), {.table = table()});
        write_event(*store, simple_event("e"));
      }
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  {
    const auto box = settled(box_on(open_store()));
    write(box->writer());
    ASSERT_TRUE(all_arrive_soon());
    EXPECT_EQ(::write(go[1], "g", 1), 1);
    int state = -1;
    waitpid(child, &state, 0);
    EXPECT_EQ(state, 0);
    ++written_;
    EXPECT_TRUE(all_arrive_soon());
  }
  close(go[0]);
  close(go[1]);
}

// --- With connections that are slow or lost ---

// A slow server was once paid back with a silence of eight times as long.
TEST_F(PostgresWatchTest, ASlowNotificationDelaysTheNextByNoMoreThanItselfWhichTellsOfAllCommits) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto reads = open_store();
  const auto watched = watch(*reads);
  const std::size_t before = seen_.count();
  const auto notifier = notifier_at(proxy.port());
  notifier->committed(nullptr);
  ASSERT_TRUE(seen_.wait(before + 1));

  proxy.stall();
  const auto resumes = std::chrono::steady_clock::now() + 1s;
  int commits = 0;
  for (; std::chrono::steady_clock::now() < resumes; ++commits) {
    notifier->committed(nullptr);
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_EQ(seen_.count(), before + 1);
  proxy.resume();
  // One was under way and one tells of the rest; the two may be heard as one.
  ASSERT_TRUE(seen_.wait(before + 2));
  notifier->committed(nullptr);
  EXPECT_TRUE(seen_.wait(before + 3, 4s));
  EXPECT_GT(commits, 5);
  EXPECT_LE(seen_.count(), before + 4);
}

TEST_F(PostgresWatchTest, WhatCouldNotBeToldIsToldWhenTheConnectionIsBack) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto reads = open_store();
  const auto watched = watch(*reads);
  const std::size_t before = seen_.count();
  proxy.refuse();
  const auto notifier = notifier_at(proxy.port());
  notifier->committed(nullptr);
  EXPECT_FALSE(seen_.wait(before + 1, 300ms));
  proxy.admit();
  EXPECT_TRUE(seen_.wait(before + 1));
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

TEST_F(PostgresWatchTest, AfterACutItHearsAgainAndLooksUntilItMustHaveBeenNoticed) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto writes = open_store();
  const auto reads = open_store_at(test::with_port(test::postgres_url(), proxy.port()));
  const auto watched = watch(*reads);
  for (int i = 0; i < 2; ++i) {
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
    EXPECT_TRUE(eventually([&] { return !looks_for_itself(); }));
    const std::size_t after = seen_.count();
    write_event(*writes, simple_event(std::to_string(i)));
    EXPECT_TRUE(seen_.wait(after + 1));
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
  EXPECT_EQ(known_listeners(), "0") << "a lock would stay on a connection that is not ours";
}

}  // namespace

}  // namespace outbox::postgres
