// A server that becomes a standby and is promoted, and one that takes no writes.
#include "outbox/outbox.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/services.h"

namespace outbox::postgres {
namespace {

class PostgresPromotionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    server_ = std::make_unique<test::OwnServer>("postgres");
  }

  // It follows nobody, and so has everything that it needs to be promoted.
  void make_standby() {
    test::Sql sql(server_->url());
    sql.execute("COPY (SELECT) TO '" + sql.value("SHOW data_directory") + "/standby.signal'");
    server_->restart(true);
  }

  void promote() { test::Sql(server_->url()).execute("SELECT pg_promote()"); }

  testing::RecordingLog log_;
  std::unique_ptr<test::OwnServer> server_;
};

TEST_F(PostgresPromotionTest, AStandbyIsNotUsedAndAPromotedOneEndsTheEpoch) {
  const auto store = open(server_->url(), {.log = log_.log()});
  const auto instance = store->join({.lease = 60s});
  const Lease before = instance->renew();
  write_event(*store, simple_event("1"));
  const StatusUpdate first{.row = instance->ready(before.shards, 0, 10).rows.at(0).ref,
                           .event_id = "1"};

  make_standby();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(instance->renew(), RetryableError);
    EXPECT_THROW(instance->ready(before.shards, 0, 10), RetryableError);
    EXPECT_THROW(instance->apply(before.epoch, {&first, 1}), RetryableError);
    EXPECT_THROW(write_event(*store, simple_event("no")), RetryableError);
  }

  promote();
  Lease after;
  EXPECT_TRUE(works_again([&] { after = instance->renew(); }));
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.shards.size(), 16u);
  EXPECT_TRUE(works_again([&] { EXPECT_TRUE(instance->apply(before.epoch, {&first, 1}).fenced); }));
  EXPECT_TRUE(works_again([&] {
    EXPECT_EQ(ids(instance->ready(after.shards, 0, 10).rows), std::vector<std::string>{"1"});
  }));
  EXPECT_TRUE(instance->apply(after.epoch, {&first, 1}).stale.empty());
  EXPECT_EQ(instance->renew().epoch, after.epoch);
}

TEST_F(PostgresPromotionTest, AnEngineGoesOnAfterIt) {
  const auto listener = std::make_shared<testing::RecordingListener>();
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  outbox::Options options{.mode = Mode::multi_node, .lease = {.duration = 3s}, .log = log_.log()};
  options.poll_interval = 200ms;
  Outbox box(open(server_->url(), {.log = log_.log()}), listeners, std::move(options));
  box.start();
  std::size_t written = 0;
  const auto write = [&] {
    auto tx = box.begin();
    tx.write({.type = "Happened", .payload = json("{}"), .id = std::to_string(written)});
    tx.commit();
    ++written;
  };
  for (int i = 0; i < 20; ++i) write();
  EXPECT_TRUE(box.wait_idle(20s));
  make_standby();
  promote();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(works_again(write));
  EXPECT_TRUE(listener->wait_for(written));
  EXPECT_TRUE(box.wait_idle(20s));
}

// By its configuration, as operators do who take it out of service; a role's or a database's
// setting is another matter.
TEST_F(PostgresPromotionTest, OfTwoHostsTheOneWhoseServerTakesNoWritesIsPassedOver) {
  test::Sql sql(server_->url());
  sql.execute("ALTER SYSTEM SET default_transaction_read_only = on");
  sql.execute("SELECT pg_reload_conf()");
  EXPECT_TRUE(eventually([&] {
    return test::Sql(server_->url()).value("SHOW default_transaction_read_only") == "on";
  }));
  const std::string usual = test::postgres_url();
  const std::string login = usual.substr(0, usual.find('@') + 1);
  const auto port_of_engine = [&](const std::string& hosts) {
    const auto config = std::make_shared<StoreConfig>(login + hosts + "/outbox");
    config->options.prepare = true;
    Database engine(config);
    return engine.run(Sql{"ask", "SELECT inet_server_port()"}).integer(0, 0);
  };
  const std::string wrong = "127.0.0.1:" + std::to_string(test::port_of(server_->url()));
  const std::string right = "127.0.0.1:" + std::to_string(test::port_of(usual));
  EXPECT_EQ(port_of_engine(wrong + "," + right), test::port_of(usual));
  EXPECT_EQ(port_of_engine(right + "," + wrong), test::port_of(usual));
  EXPECT_THROW(port_of_engine(wrong), RetryableError);
}

}  // namespace
}  // namespace outbox::postgres
