#include "store/mysql/ownership.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "model/shards.h"
#include "outbox/outbox.h"
#include "store/mysql/lock_test_support.h"
#include "store/mysql/test_support.h"
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
        "INSERT INTO outbox_event_instance (epoch, owner, beat_at, lease, capacity, exclusive, "
        "claims,"
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
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE candidates IS NOT NULL"),
            "0");
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
  EXPECT_EQ(after.epoch, 0) << "it registered again, and the other one owns everything";
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
  EXPECT_EQ(renewing.get().epoch, 0) << "it is a standby";
  EXPECT_EQ(instances(), "2");
  EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard WHERE epoch = 5"), "16");
}

// They may lead to a server that is the primary no more.
TEST_F(MysqlOwnershipTest, ConnectionsOlderThanTheNewestRegistrationAreReopened) {
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

using Numbers = std::vector<int>;
using Shares = std::vector<std::size_t>;

Shares shares(const std::vector<Peer>& peers) {
  Shares all;
  for (const Peer& peer : peers) all.push_back(share_of(peer.epoch, peers));
  return all;
}

TEST(MembershipTest, SharesAreEvenAndTheOldestGetOneMore) {
  EXPECT_EQ(shares({{.epoch = 4}}), (Shares{16}));
  EXPECT_EQ(shares({{.epoch = 4}, {.epoch = 7}, {.epoch = 9}}), (Shares{6, 5, 5}));
}

TEST(MembershipTest, MoreThanThereAreShardsAndTheYoungestGetNone) {
  std::vector<Peer> peers;
  for (int i = 1; i <= kShards + 2; ++i) peers.push_back({.epoch = i});
  Shares expected(kShards, 1);
  expected.insert(expected.end(), 2, 0);
  EXPECT_EQ(shares(peers), expected);
}

TEST(MembershipTest, TheOldestThatWantsEverythingGetsIt) {
  EXPECT_EQ(
      shares({{.epoch = 1}, {.epoch = 2, .exclusive = true}, {.epoch = 3, .exclusive = true}}),
      (Shares{0, 16, 0}));
}

TEST(MembershipTest, WhileTheOldestClaimsRowsNobodyOwnsShards) {
  EXPECT_EQ(shares({{.epoch = 1, .claims = true}, {.epoch = 2}}), (Shares{0, 0}));
  EXPECT_EQ(shares({{.epoch = 1}, {.epoch = 2, .claims = true}}), (Shares{16, 0}));
}

TEST(MembershipTest, WhoIsNotAmongTheMembersHasNoShare) {
  EXPECT_EQ(share_of(5, {{.epoch = 1}}), 0);
  EXPECT_EQ(share_of(5, {}), 0);
}

TEST(MembershipTest, WhatIsFreeIsTakenUpToTheShare) {
  const std::vector<Shard> shards{{.number = 0, .epoch = 9}, {.number = 1}, {.number = 2}};
  const Changes changes = changes_for(1, 1, shards);
  EXPECT_EQ(changes.take, (Numbers{1}));
  EXPECT_TRUE(changes.leave.empty());
  EXPECT_TRUE(changes_for(1, 0, shards).empty());
}

TEST(MembershipTest, WhatExceedsTheShareIsDrainedAndNothingElseIsTaken) {
  const std::vector<Shard> shards{{.number = 0, .epoch = 1},
                                  {.number = 1, .epoch = 1, .draining = true},
                                  {.number = 2, .epoch = 1},
                                  {.number = 3}};
  const Changes changes = changes_for(1, 1, shards);
  EXPECT_EQ(changes.leave, (Numbers{2}));
  EXPECT_TRUE(changes.take.empty());
  EXPECT_TRUE(changes.stay.empty());
}

TEST(MembershipTest, WhatIsBeingDrainedStaysBeforeAnythingFreeIsTaken) {
  const std::vector<Shard> shards{
      {.number = 0}, {.number = 1, .epoch = 1, .draining = true}, {.number = 2, .epoch = 1}};
  const Changes changes = changes_for(1, 2, shards);
  EXPECT_EQ(changes.stay, (Numbers{1}));
  EXPECT_TRUE(changes.take.empty());
}

class MysqlClaimsTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
  }

  void write(int number) {
    std::vector<Event> events;
    for (int i = 0; i < number; ++i) events.push_back(simple_event(std::to_string(i)));
    const auto connection = begun(*store_);
    connection->insert(events, {});
    connection->commit();
  }
  std::unique_ptr<Instance> claimer() {
    auto instance = store_->join({.row_claims = true});
    EXPECT_NE(instance->renew().epoch, 0);
    return instance;
  }

  std::shared_ptr<Store> store_;
};

TEST_F(MysqlClaimsTest, ClaimersAtTheSameMomentNeverGetTheSameRows) {
  constexpr int kRows = 2'000;
  write(kRows);
  std::mutex mutex;
  std::set<std::string> claimed;
  int twice = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, instance = claimer()] {
        while (true) {
          const Rows rows = instance->claim(0ms, 50);
          const std::lock_guard lock(mutex);
          for (const Row& row : rows.rows) {
            if (!claimed.insert(row.event.id()).second) ++twice;
          }
          if (claimed.size() == kRows || twice > 0) return;
        }
      });
    }
  }
  EXPECT_EQ(twice, 0);
  EXPECT_EQ(claimed.size(), std::size_t{kRows});
}

TEST_F(MysqlClaimsTest, AClaimPassesOverWhatOthersHaveLocked) {
  write(10);
  const auto instance = claimer();
  test::Mysql other(url());
  other.execute(
      "BEGIN; SELECT * FROM outbox_event FORCE INDEX (PRIMARY) WHERE seq IN (1, 2, 3, 4) FOR "
      "UPDATE");
  other.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('x', 'T', '{}')");
  const auto begin = std::chrono::steady_clock::now();
  const Rows rows = instance->claim(0ms, 100);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(rows.rows.size(), 6U);
  std::vector<RowRef> refs;
  for (const Row& row : rows.rows) refs.push_back(row.ref);
  instance->unclaim(refs);
  other.execute("COMMIT");
  EXPECT_EQ(instance->claim(0ms, 100).rows.size(), 11U);
}

}  // namespace

}  // namespace outbox::mysql
