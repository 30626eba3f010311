// A server that ends, in good order or not, and comes back: on a server of its own.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "support/stores.h"
#ifdef OUTBOX_WITH_MYSQL
#include "outbox/mysql.h"
#endif
#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#endif

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using test::begun;
using test::eventually;
using test::simple_event;
using test::works_again;
using test::write_event;

struct ServerKind {
  const char* service;   // of scripts/services
  const char* variable;  // that says whether there are such servers
  bool tells_of_gaps;    // a watch is called after each time in which it could not hear
  std::shared_ptr<Store> (*open)(const std::string& url, Logger log);

  friend void PrintTo(const ServerKind& kind, std::ostream* out) { *out << kind.service; }
};

class RestartTest : public ::testing::TestWithParam<ServerKind> {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_SERVICE(GetParam().variable);
    server_ = std::make_unique<test::OwnServer>(GetParam().service);
  }

  std::shared_ptr<Store> open_store() { return GetParam().open(server_->url(), log_.log()); }

  testing::RecordingLog log_;
  std::unique_ptr<test::OwnServer> server_;
};

// Where no store with a server is built.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RestartTest);

TEST_P(RestartTest, PoolInstanceAndWatchSurviveIt) {
  const auto store = open_store();
  const auto instance = store->join({.lease = 60s});
  testing::Signal seen;
  const auto watched = store->watch([&] { seen.raise(); });
  const Lease lease = instance->renew();
  if (GetParam().tells_of_gaps) {
    ASSERT_TRUE(seen.wait());
  }
  for (const bool in_good_order : {true, false}) {
    const std::string id = in_good_order ? "restarted" : "killed";
    write_event(*store, simple_event(id));
    const auto open = begun(*store);
    open->query("SELECT 1", {});
    ASSERT_TRUE(eventually([&] { return instance->ready(lease.shards, 0, 10).rows.size() == 1; }));
    const std::size_t before = seen.count();
    server_->restart(in_good_order);

    EXPECT_THROW(open->commit(), Error) << "its transaction is lost";
    EXPECT_TRUE(works_again([&] { begun(*store); }));
    EXPECT_TRUE(works_again([&] { EXPECT_EQ(instance->renew().epoch, lease.epoch); }));
    Rows rows;
    EXPECT_TRUE(works_again([&] {
      instance->rewind(0);
      rows = instance->ready(lease.shards, 0, 10);
    }));
    ASSERT_EQ(test::ids(rows.rows), std::vector<std::string>{id});
    const StatusUpdate done{.row = rows.rows.front().ref, .event_id = id};
    EXPECT_TRUE(works_again([&] {
      const UpdateResult result = instance->apply(lease.epoch, {&done, 1});
      EXPECT_FALSE(result.fenced);
      EXPECT_TRUE(result.stale.empty());
    }));
    if (GetParam().tells_of_gaps) {
      EXPECT_TRUE(seen.wait(before + 1)) << "called for the gap";
    }
    const std::size_t back = seen.count();
    write_event(*store, simple_event(id + " after"));
    EXPECT_TRUE(seen.wait(back + 1)) << "hears again";
    const StatusUpdate after{.row = store->admin().find(id + " after")->row.ref,
                             .event_id = id + " after"};
    instance->apply(lease.epoch, {&after, 1});
  }
}

TEST_P(RestartTest, AnEngineGoesOnAndDeliversEverythingOnce) {
  const auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  Options options{.mode = Mode::multi_node, .log = log_.log()};
  options.poll_interval = 200ms;
  Outbox box(open_store(), listeners, std::move(options));
  box.start();
  std::size_t written = 0;
  const auto write = [&] {
    auto tx = box.begin();
    tx.write({.type = "Happened", .payload = json("{}"), .id = std::to_string(written)});
    tx.commit();
    ++written;
  };
  write();
  EXPECT_TRUE(box.wait_idle(20s));
  for (const bool in_good_order : {true, false}) {
    server_->restart(in_good_order);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(works_again(write));
    EXPECT_TRUE(listener->wait_for(written));
    EXPECT_TRUE(box.wait_idle(20s));
  }
  EXPECT_EQ(listener->count(), written);
}

#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, RestartTest,
                         ::testing::Values(ServerKind{
                             .service = "postgres",
                             .variable = "OUTBOX_TEST_POSTGRES",
                             .tells_of_gaps = true,
                             .open = [](const std::string& url, Logger log) {
                               return postgres::open(url, {.log = std::move(log)});
                             }}));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, RestartTest,
                         ::testing::Values(ServerKind{
                             .service = "mariadb",
                             .variable = "OUTBOX_TEST_MYSQL",
                             .tells_of_gaps = false,
                             .open = [](const std::string& url, Logger log) {
                               return mysql::open(url, {.log = std::move(log)});
                             }}));
#endif

}  // namespace
}  // namespace outbox::conformance
