// Rows whose transactions end late, reads that are cut or fail: none is passed over.
#include "store/mysql/reader.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_set>
#include <vector>

#include "store/mysql/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::mysql {
namespace {

class MysqlReaderTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    instance_ = store_->join({});
    lease_ = instance_->renew();
  }

  // At most 1,000.
  static std::string insert_rows(const std::string& prefix, int number) {
    const std::string digits =
        "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4"
        " UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL"
        " SELECT 9)";
    return "INSERT INTO outbox_event (event_id, event_type, payload) SELECT concat('" + prefix +
           "', a.n + 10 * b.n + 100 * c.n), 'T', '{}' FROM " + digits + " AS a, " + digits +
           " AS b, " + digits + " AS c WHERE a.n + 10 * b.n + 100 * c.n < " +
           std::to_string(number);
  }

  std::vector<Row> ready(std::size_t limit) {
    return instance_->ready(lease_.shards, 0, limit).rows;
  }
  void finish(const std::vector<Row>& rows) {
    std::vector<StatusUpdate> updates;
    for (const Row& row : rows) updates.push_back({.row = row.ref, .event_id = row.event.id()});
    const UpdateResult applied = instance_->apply(lease_.epoch, updates);
    EXPECT_FALSE(applied.fenced);
    EXPECT_TRUE(applied.stale.empty());
  }

  // Reads and updates all that is there; the ids that did not come from `prefix`.
  std::vector<std::string> deliver(const std::string& prefix, std::size_t limit = 500) {
    std::vector<std::string> others;
    Rows rows;
    do {
      rows = instance_->ready(lease_.shards, 0, limit);
      finish(rows.rows);
      for (const Row& row : rows.rows) {
        if (!row.event.id().starts_with(prefix)) others.push_back(row.event.id());
      }
    } while (rows.more);
    return others;
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Lease lease_;
};

TEST_F(MysqlReaderTest, ARowThatIsCommittedLateIsReturnedAfterThousandsThatOvertookIt) {
  test::Mysql late(url());
  late.execute("BEGIN");
  late.execute(insert_rows("late", 1));
  for (int round = 0; round < 3; ++round) {
    const std::string prefix = "overtakes" + std::to_string(round) + "_";
    sql().execute(insert_rows(prefix, 1'000));
    EXPECT_TRUE(deliver(prefix).empty());
  }
  late.execute("COMMIT");
  EXPECT_EQ(deliver("none"), std::vector<std::string>{"late0"});
}

TEST_F(MysqlReaderTest, ReadsThatAreCutReturnEveryRowOnceAndKeepNoShardWaiting) {
  sql().execute(insert_rows("e", 1'000));
  std::set<std::string> seen;
  std::set<int> shards;
  Rows rows;
  int reads = 0;
  do {
    rows = instance_->ready(lease_.shards, seen.size(), 32);
    ++reads;
    EXPECT_LE(rows.rows.size(), 32U);
    EXPECT_TRUE(std::is_sorted(rows.rows.begin(), rows.rows.end(),
                               [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; }));
    for (const Row& row : rows.rows) {
      EXPECT_TRUE(seen.insert(row.event.id()).second) << row.event.id() << " was returned twice";
      if (reads <= 500 / 32) shards.insert(row.ref.shard);
    }
  } while (rows.more);
  EXPECT_EQ(seen.size(), 1'000U);
  EXPECT_EQ(shards.size(), lease_.shards.size()) << "in what was found at the first look";
  EXPECT_LE(reads, 1'000 / 32 + 2) << "each as full as it may be";
}

// Within a shard nothing may pass what was inserted before it.
TEST_F(MysqlReaderTest, ACutReadReturnsTheFirstRowsOfEachShard) {
  sql().execute(insert_rows("e", 500));
  std::map<int, Seq> last;
  Rows rows;
  do {
    rows = instance_->ready(lease_.shards, 0, 7);
    for (const Row& row : rows.rows) {
      EXPECT_GT(row.ref.seq, last[row.ref.shard]);
      last[row.ref.shard] = row.ref.seq;
    }
  } while (rows.more);
}

TEST_F(MysqlReaderTest, ARewindReturnsRowsThatWereReadButNotUpdated) {
  sql().execute(insert_rows("e", 9));
  const std::vector<Row> first = ready(10);
  ASSERT_EQ(first.size(), 9U);
  EXPECT_TRUE(ready(10).empty());
  finish({first[8]});
  instance_->rewind(first[5].ref.seq);
  const std::vector<Row> again = ready(10);
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again.front().ref.seq, first[5].ref.seq);
  instance_->rewind(0);
  EXPECT_EQ(ready(10).size(), 8U);
}

// The index is read first, then the rows. What was found in it but did not arrive would
// have waited for a sweep.
TEST_F(MysqlReaderTest, RowsOfAReadThatFailedInTheMiddleAreReturnedByTheNextOne) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto config = config_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled",
                                {.codec = default_json_codec()});
  Database database(config);
  const ShardGenerations gains;
  Reader reader(database, gains, false);
  sql().execute(insert_rows("e", 5));
  network.drop_request("payload_bytes");
  EXPECT_THROW(reader.ready(lease_.shards, 0, 10), RetryableError);
  EXPECT_EQ(network.drops(), 1);
  EXPECT_EQ(reader.ready(lease_.shards, 0, 10).rows.size(), 5U);
}

// A new connection may lead to a primary that gives out again the numbers that it lost.
TEST_F(MysqlReaderTest, WhatWasFoundByAnotherConnectionIsForgotten) {
  test::TcpProxy network("127.0.0.1", test::port_of(test::mysql_url()));
  const auto store = open_store_at(test::with_port(url(), network.port()) + "?ssl_mode=disabled");
  instance_->leave();
  instance_ = store->join({});
  lease_ = instance_->renew();
  sql().execute(insert_rows("lost", 3));
  ASSERT_EQ(ready(2).size(), 2U);
  network.cut();
  ASSERT_TRUE(eventually([&] { return network.connections() == 0; }));
  sql().execute("UPDATE outbox_event SET event_id = concat('other', seq)");
  std::vector<Row> rows;
  ASSERT_TRUE(works_again([&] { rows = ready(10); }));
  ASSERT_EQ(rows.size(), 3U);
  for (const Row& row : rows) EXPECT_TRUE(row.event.id().starts_with("other")) << row.event.id();
}

// Where the constraint could not be added.
TEST_F(MysqlReaderTest, RowsThatContradictThemselvesAreNeitherReadNorHideOthers) {
  sql().execute(sql().value("SELECT version()").find("MariaDB") != std::string::npos
                    ? "ALTER TABLE outbox_event DROP CONSTRAINT outbox_event_state"
                    : "ALTER TABLE outbox_event DROP CHECK outbox_event_state");
  // One shard: the same aggregate.
  const auto insert = [&](const std::string& id, const std::string& values) {
    sql().execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_id, payload, status, hold) "
        "VALUES ('" +
        id + "', 'T', 'a', '{}', " + values + ")");
  };
  for (int i = 0; i < 5; ++i) {
    const std::string number = std::to_string(i);
    insert("done and ready " + number, "1, 0");
    insert("unknown and ready " + number, "9, 0");
    insert("done and due " + number, "1, -1");
    insert("dead and due " + number, "3, -2");
    insert("done in a lane " + number, "1, 7");
    insert("unknown in a lane " + number, "9, 6");
  }
  insert("ready", "0, 0");
  insert("due", "2, -3");
  insert("held", "0, 7");
  EXPECT_EQ(ids(ready(2)), std::vector<std::string>{"ready"});
  const DueRows due = instance_->due(lease_.shards, 2);
  EXPECT_EQ(ids(due.rows), std::vector<std::string>{"due"});
  EXPECT_FALSE(due.more);
  finish(due.rows);
  EXPECT_FALSE(instance_->due(lease_.shards, 2).next_in) << "nobody need look again";
  std::vector<HeldLane> lanes;
  for (const int shard : lease_.shards) {
    for (const HeldLane& lane : instance_->held_lanes(shard, 0, 10)) lanes.push_back(lane);
  }
  ASSERT_EQ(lanes.size(), 1U);
  EXPECT_EQ(ids(instance_->held({lanes[0].shard, lanes[0].key}, 2).rows),
            std::vector<std::string>{"held"});
}

TEST(MysqlSettledThrough, ALookVouchesForWhatTheOneBeforeItFoundUpToTheFirstNewRow) {
  const std::unordered_set<Seq> found{3, 5, 8};
  constexpr Seq kAll = std::numeric_limits<Seq>::max();
  EXPECT_EQ(settled_through(found, std::vector<Seq>{3, 5, 8}, false), kAll);
  EXPECT_EQ(settled_through(found, std::vector<Seq>{3, 4, 5, 8}, false), 3) << "5 is to wait for 4";
  EXPECT_EQ(settled_through(found, std::vector<Seq>{2, 3, 5, 8}, false), 1);
  EXPECT_EQ(settled_through(found, std::vector<Seq>{3, 5, 8, 9}, false), 8);
  EXPECT_EQ(settled_through(found, std::vector<Seq>{5}, false), kAll) << "the others are finished";
  EXPECT_EQ(settled_through(found, {}, false), kAll);
}

TEST(MysqlSettledThrough, ALookThatWasCutVouchesForNothingBeyond) {
  const std::unordered_set<Seq> found{3, 5, 8};
  EXPECT_EQ(settled_through(found, std::vector<Seq>{3, 5}, true), 5);
  EXPECT_EQ(settled_through(found, std::vector<Seq>{3, 4}, true), 3);
  EXPECT_EQ(settled_through(found, {}, true), 0);
}

// On the tests' usual server, which has a binary log; servers_long_test.cc has the other.
using MysqlFlushTest = MysqlTest;

TEST_F(MysqlFlushTest, WithABinaryLogNothingIsWritten) {
  ASSERT_EQ(sql().value("SELECT @@log_bin"), "1");
  const auto store = open_store();
  Database database(config());
  EXPECT_FALSE(database.session().shows_commits_early());
  sync_log(database.session(), 3);
  const auto instance = store->join({});
  const Lease lease = instance->renew();
  write_event(*store, simple_event("e"));
  EXPECT_EQ(instance->ready(lease.shards, 0, 10).rows.size(), 1U);
  EXPECT_EQ(sql().value("SELECT sum(flushes) FROM outbox_event_flush"), "0");
}

}  // namespace

}  // namespace outbox::mysql
