#include "store/mysql/ownership.h"

#include <future>

#include "store/mysql/lock_test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlOwnershipTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
  }

  // An instance of another host that died with all shards.
  void leave_a_dead_one() {
    sql().execute(
        "INSERT INTO outbox_event_instance (epoch, owner, beat_at, lease, capacity, whole, claims,"
        " name, host, pid, process) VALUES (5, 'gone', '2020-01-01', 1000, 300, FALSE, FALSE, '',"
        " 'elsewhere', 1, 'elsewhere/1')");
    sql().execute("UPDATE outbox_event_shard SET epoch = 5");
  }
  std::string instances() { return sql().value("SELECT count(*) FROM outbox_event_instance"); }

  std::shared_ptr<Store> store_;
};

TEST_F(MysqlOwnershipTest, WhileSomebodyIsStoppedInTheMiddleOfAChangeTheOthersKeepTheirLeases) {
  const auto one = store_->join({});
  const Lease before = one->renew();
  ASSERT_EQ(before.shards.size(), 16U);
  const auto two = store_->join({.lease = 60s});
  two->renew();
  test::Mysql stopped(url());
  stopped.execute("BEGIN; SELECT * FROM outbox_event_shard FOR UPDATE");
  // It is to give up half of its shards now, and cannot.
  sql().execute("UPDATE outbox_event_instance SET beat_at = '2020-01-01' WHERE epoch = " +
                std::to_string(before.epoch));
  const Lease during = one->renew();
  EXPECT_EQ(during.epoch, before.epoch);
  EXPECT_EQ(during.shards, before.shards);
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_instance WHERE beat_at < '2021-01-01'"),
            "0")
      << "it has renewed its lease";
  stopped.execute("ROLLBACK");
  EXPECT_EQ(one->renew().draining.size(), 8U);
}

// To forget the candidates is a change as well.
TEST_F(MysqlOwnershipTest, WhoHasInheritedPoisonCandidatesKeepsItsLeaseToo) {
  leave_a_dead_one();
  const auto one = store_->join({});
  const Lease before = one->renew();
  ASSERT_EQ(before.inherited.size(), 16U);
  EXPECT_EQ(before.inherited.front().candidates, 300U);
  test::Mysql stopped(url());
  stopped.execute("BEGIN; SELECT * FROM outbox_event_shard FOR UPDATE");
  const Lease during = one->renew();
  EXPECT_EQ(during.epoch, before.epoch);
  EXPECT_EQ(during.shards, before.shards);
  EXPECT_TRUE(during.inherited.empty()) << "it was told of them";
  stopped.execute("ROLLBACK");
  EXPECT_TRUE(one->renew().inherited.empty());
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE suspects IS NOT NULL"), "0");
}

TEST_F(MysqlOwnershipTest, WhoDidNotHearThatItRegisteredIsRegisteredOnce) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto store = open_store_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled");
  const auto instance = store->join({});
  network.drop_reply(
      "\x03"
      "COMMIT");  // the statement, not READ-COMMITTED
  EXPECT_THROW(instance->renew(), RetryableError);
  EXPECT_EQ(network.drops(), 1);
  EXPECT_EQ(instances(), "1") << "it did register";
  const Lease lease = instance->renew();
  EXPECT_EQ(lease.shards.size(), 16U);
  EXPECT_EQ(instances(), "1");
  EXPECT_EQ(sql().value("SELECT max(epoch) FROM outbox_event_instance"),
            std::to_string(lease.epoch));
  instance->leave();
  EXPECT_EQ(instances(), "0");
}

// After an outage everybody's lease looks expired.
TEST_F(MysqlOwnershipTest, WhoIsBackFirstDoesNotEvictTheOthers) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto store = open_store_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled");
  const auto instance = store->join({});
  ASSERT_EQ(instance->renew().shards.size(), 16U);
  network.cut();
  network.refuse();
  EXPECT_THROW(instance->renew(), RetryableError);
  network.admit();
  leave_a_dead_one();
  Lease lease;
  ASSERT_TRUE(eventually([&] {
    try {
      lease = instance->renew();
      return true;
    } catch (const RetryableError&) {
      return false;
    }
  }));
  EXPECT_EQ(instances(), "2") << "it may renew its lease yet";
  instance->renew();
  EXPECT_EQ(instances(), "1") << "it has had its chance";
}

// A primary that has lost commits gives out again what they had.
TEST_F(MysqlOwnershipTest, AnEpochIsGreaterThanTheLastOneAlsoWhereNumbersBeginAgain) {
  const auto instance = store_->join({});
  const std::int64_t first = instance->renew().epoch;
  sql().execute(
      "UPDATE outbox_event_shard SET epoch = NULL; DELETE FROM outbox_event_instance;"
      " ALTER TABLE outbox_event_instance AUTO_INCREMENT = 1");
  const std::int64_t second = instance->renew().epoch;
  EXPECT_GT(second, first);
  instance->leave();
  sql().execute("ALTER TABLE outbox_event_instance AUTO_INCREMENT = 1");
  EXPECT_GT(instance->renew().epoch, second);
  EXPECT_EQ(instances(), "1");
}

TEST_F(MysqlOwnershipTest, AnEpochIsNotRenewedThatIsSomebodyElsesNow) {
  const auto instance = store_->join({});
  const Lease before = instance->renew();
  sql().execute("UPDATE outbox_event_instance SET owner = 'somebody else'");
  const Lease after = instance->renew();
  EXPECT_EQ(after.epoch, 0) << "it registered anew, and the other one owns everything";
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE epoch = " +
                        std::to_string(before.epoch)),
            "16");
  EXPECT_EQ(instances(), "2");
}

// By its number, that is. What it owns is not given back in its name either.
TEST_F(MysqlOwnershipTest, WhoLeavesLeavesAloneWhatIsSomebodyElsesNow) {
  const auto instance = store_->join({});
  instance->renew();
  sql().execute("UPDATE outbox_event_instance SET owner = 'somebody else'");
  instance->leave();
  EXPECT_EQ(instances(), "1");
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE epoch IS NOT NULL"), "16");
}

TEST_F(MysqlOwnershipTest, WhoGivesAShardBackLeavesAloneWhatIsSomebodyElsesNow) {
  const auto instance = store_->join({.lease = 60s});
  instance->renew();
  const auto other = store_->join({.lease = 60s});
  other->renew();
  const Lease lease = instance->renew();
  ASSERT_FALSE(lease.draining.empty());
  sql().execute("UPDATE outbox_event_instance SET owner = 'somebody else' WHERE epoch = " +
                std::to_string(lease.epoch));
  instance->release(lease.draining.front());
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE epoch IS NOT NULL"), "16");
}

// Its lease had expired when somebody looked, and it has renewed it since.
TEST_F(MysqlOwnershipTest, WhoRenewsItsLeaseBetweenTheLookAndTheTakeOverIsNotEvicted) {
  leave_a_dead_one();
  test::Mysql late(url());
  late.execute(
      "BEGIN; UPDATE outbox_event_instance SET beat_at = utc_timestamp(6), lease = 3600000000 "
      "WHERE epoch = 5");
  const auto heir = store_->join({.lease = 60s});
  auto renewing = std::async(std::launch::async, [&] { return heir->renew(); });
  EXPECT_TRUE(wait_for_waiters(sql(), 1));
  late.execute("COMMIT");
  EXPECT_EQ(renewing.get().epoch, 0) << "it stands by";
  EXPECT_EQ(instances(), "2");
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE epoch = 5"), "16");
}

// They may lead to a server that is the primary no more.
TEST_F(MysqlOwnershipTest, ConnectionsOlderThanTheNewestRegistrationAreOpenedAnew) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto store = open_store_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled");
  const auto instance = store->join({});
  Lease lease = instance->renew();
  write_event(*store_, simple_event("one"));
  const std::vector<Row> rows = instance->ready(lease.shards, 0, 10).rows;
  ASSERT_EQ(ids(rows), std::vector<std::string>{"one"});
  const std::vector<StatusUpdate> done{{.row = rows.at(0).ref, .event_id = "one"}};
  EXPECT_TRUE(instance->apply(lease.epoch, done).stale.empty());
  const int before = network.accepted();

  instance->leave();
  EXPECT_TRUE(instance->apply(lease.epoch, done).fenced);
  const std::int64_t first = lease.epoch;
  lease = instance->renew();
  EXPECT_GT(lease.epoch, first);
  EXPECT_TRUE(instance->ready(lease.shards, 0, 10).rows.empty());
  EXPECT_TRUE(instance->apply(lease.epoch, done).stale.empty());
  EXPECT_EQ(network.accepted(), before + 2) << "to read, and to update";
}

TEST_F(MysqlOwnershipTest, WhoseConnectionIsDeadLeavesByAnother) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto store = open_store_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled");
  const auto instance = store->join({.lease = 3s});
  instance->renew();
  network.cut();
  EXPECT_TRUE(works_again([&] { instance->leave(); }));
  EXPECT_EQ(instances(), "0");
  instance->renew();
  network.stall();
  EXPECT_THROW(instance->leave(), RetryableError);
  network.resume();
  EXPECT_TRUE(works_again([&] { instance->leave(); }));
  EXPECT_EQ(instances(), "0");
}

// A node that was cut off answers every statement so.
TEST_F(MysqlOwnershipTest, ConnectionsToANodeThatIsNotReadyAreLost) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto store = open_store_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled");
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store_, simple_event("one"));
  const std::vector<Row> rows = instance->ready(lease.shards, 0, 10).rows;
  const std::vector<StatusUpdate> done{{.row = rows.at(0).ref, .event_id = "one"}};
  for (const std::string table : {"outbox_event", "outbox_event_instance"}) {
    sql().execute("CREATE TRIGGER not_ready BEFORE UPDATE ON " + table +
                  " FOR EACH ROW SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047");
    EXPECT_THROW(table == "outbox_event" ? static_cast<void>(instance->apply(lease.epoch, done))
                                         : static_cast<void>(instance->renew()),
                 RetryableError);
    sql().execute("DROP TRIGGER not_ready");
    const int before = network.accepted();
    if (table == "outbox_event") {
      EXPECT_TRUE(instance->apply(lease.epoch, done).stale.empty());
    } else {
      EXPECT_EQ(instance->renew().epoch, lease.epoch);
    }
    EXPECT_EQ(network.accepted(), before + 1) << table;
  }
}

}  // namespace
}  // namespace outbox::mysql
