// What statements cost: how many rows the server visits for them, whatever it plans.
#include "store/mysql/sql.h"

#include "store/common/database_admin.h"
#include "store/mysql/admin.h"
#include "store/mysql/ownership.h"
#include "store/mysql/reader.h"
#include "store/mysql/test_support.h"
#include "store/mysql/updates.h"

namespace outbox::mysql {
namespace {

constexpr int kShardNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// What a statement did in its session.
struct Cost {
  std::int64_t visited = 0;
  std::int64_t sorted = 0;
};

class MysqlCostTest : public MysqlTest, public ::testing::WithParamInterface<bool> {
 protected:
  // A large table of delivered events, with some of every other kind among them, of
  // which the server has statistics or not.
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store();
    database_ =
        std::make_unique<Database>(config({.codec = default_json_codec(), .clock = &host_clock()}));
    if (GetParam()) sql().execute("ANALYZE TABLE outbox_event");
    const std::string digits =
        "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4"
        " UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL"
        " SELECT 9)";
    sql().execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, status, hold, done_at) "
        "SELECT i, 'T', '{}', CASE WHEN i % 100 < 3 THEN 0 WHEN i % 100 = 3 THEN 3 ELSE 1 END, "
        "  CASE i % 100 WHEN 0 THEN 0 WHEN 1 THEN -(4000000000000000 + i) WHEN 2 THEN 7 + i % 3 "
        "  END, CASE WHEN i % 100 < 3 THEN NULL ELSE utc_timestamp(6) END "
        "FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS i FROM " +
        digits + " AS a, " + digits + " AS b, " + digits + " AS c, " + digits +
        " AS d, (SELECT 0 AS n UNION ALL SELECT 1) AS e) AS numbers");
    if (!GetParam()) sql().execute("ANALYZE TABLE outbox_event");
  }

  Cost counters() {
    const Result status = database_->session().run_text(
        "SHOW SESSION STATUS WHERE variable_name LIKE 'Handler_read%' OR variable_name = "
        "'Sort_rows'",
        "read the counters");
    Cost cost;
    for (int row = 0; row < status.rows(); ++row) {
      const bool sorts = status.text(row, 0) == "Sort_rows";
      (sorts ? cost.sorted : cost.visited) += std::stoll(std::string(status.text(row, 1)));
    }
    return cost;
  }
  template <class Work>
  Cost cost_of(const Work& work) {
    const Cost before = counters();
    work();
    const Cost after = counters();
    return {.visited = after.visited - before.visited, .sorted = after.sorted - before.sorted};
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Database> database_;
};

// 200 rows each are ready, due later, in three lanes, and dead; 19,200 are delivered.
constexpr std::int64_t kOfAKind = 200;

TEST_P(MysqlCostTest, ReadsVisitWhatTheyReturnAndAFewInEachShard) {
  const ShardGenerations gains;
  Reader reader(*database_, gains, false);
  std::size_t found = 0;
  Cost cost = cost_of([&] { found = reader.ready(kShardNumbers, 0, 32).rows.size(); });
  EXPECT_EQ(found, 32U);
  EXPECT_LT(cost.visited, 600);  // MariaDB looks twice
  cost = cost_of([&] { EXPECT_TRUE(reader.due(kShardNumbers, 100).rows.empty()); });
  EXPECT_LT(cost.visited, 100);
  EXPECT_EQ(cost.sorted, 0);
  const LaneRef lane{.shard = 3, .key = 7};
  cost = cost_of([&] { found = reader.held({&lane, 1}, 2).rows.size(); });
  EXPECT_LE(found, 2U);
  EXPECT_LT(cost.visited, 10);
  EXPECT_EQ(cost.sorted, 0);
  cost = cost_of([&] { EXPECT_LE(reader.held_lanes(3, 0, 10).size(), 3U); });
  EXPECT_LT(cost.visited, 20);
  EXPECT_EQ(cost.sorted, 0);

  sql().execute("UPDATE outbox_event SET hold = -event_id - 1 WHERE hold < -4000000000000000");
  cost = cost_of([&] { found = reader.due(kShardNumbers, 10).rows.size(); });
  EXPECT_EQ(found, 10U);
  EXPECT_LT(cost.visited, 1'000) << "each shard may have them all";
}

TEST_P(MysqlCostTest, ReadsInOneOrderVisitAFewMoreInEachShard) {
  const ShardGenerations gains;
  Reader reader(*database_, gains, true);
  std::size_t found = 0;
  Cost cost = cost_of([&] { found = reader.ready(kShardNumbers, 0, 32).rows.size(); });
  EXPECT_EQ(found, 32U);
  EXPECT_LT(cost.visited, 1'000) << "it looks twice at all that there is";
  std::vector<LaneRef> lanes;
  for (const int shard : kShardNumbers) lanes.push_back({.shard = shard, .key = 7});
  cost = cost_of([&] { found = reader.held(lanes, 2).rows.size(); });
  EXPECT_EQ(found, 2U);
  EXPECT_LT(cost.visited, 150) << "two of each shard";
}

TEST_P(MysqlCostTest, UpdatesAndClaimsVisitTheirRowsAlone) {
  const auto instance = store_->join({});
  const Lease lease = instance->renew();
  const std::vector<Row> rows = instance->ready(lease.shards, 0, 60).rows;
  ASSERT_EQ(rows.size(), 60U);
  std::vector<StatusUpdate> all;
  for (const Row& row : rows) all.push_back({.row = row.ref, .event_id = row.event.id()});
  Registration registration;
  registration.set(lease.epoch, sql().value("SELECT owner FROM outbox_event_instance"), "");
  database_->belong_to(registration);
  Updates updates(*database_, "me", false);
  const auto update = [&](std::size_t from, std::size_t number, StatusUpdate::Kind kind) {
    std::vector<StatusUpdate> some(all.begin() + static_cast<std::ptrdiff_t>(from),
                                   all.begin() + static_cast<std::ptrdiff_t>(from + number));
    for (StatusUpdate& each : some) each.kind = kind;
    return cost_of([&] { EXPECT_TRUE(updates.apply(lease.epoch, some).stale.empty()); });
  };
  for (const Cost& cost :
       {update(0, 1, StatusUpdate::Kind::done), update(1, 19, StatusUpdate::Kind::done),
        update(20, 1, StatusUpdate::Kind::dead), update(21, 19, StatusUpdate::Kind::dead)}) {
    EXPECT_LT(cost.visited, 200);
    EXPECT_EQ(cost.sorted, 0);
  }

  Claims claims(*database_, "me", {.row_claims = true, .lock_timeout = 1min});
  std::vector<RowRef> refs;
  Cost cost = cost_of([&] {
    for (const Row& row : claims.claim(0ms, 20).rows) refs.push_back(row.ref);
  });
  EXPECT_EQ(refs.size(), 20U);
  EXPECT_LT(cost.visited, 200);
  EXPECT_EQ(cost.sorted, 0);
  cost = cost_of([&] { claims.unclaim(refs); });
  EXPECT_LT(cost.visited, 100);
  cost = cost_of([&] { database_->run(sql::kUnclaimAll, "me"); });
  EXPECT_LT(cost.visited, 4 * kOfAKind);
}

TEST_P(MysqlCostTest, OperatorsDoNotWalkOverTheDeliveredWhenTheySearchForOthers) {
  TableAdmin<AdminStatements> admin(*database_);
  Cost cost = cost_of([&] { EXPECT_TRUE(admin.has_pending()); });
  EXPECT_LT(cost.visited, 20);
  cost = cost_of([&] { EXPECT_TRUE(admin.find("103")); });
  EXPECT_LT(cost.visited, 5);
  cost = cost_of([&] {
    const Counts counts = admin.counts();
    EXPECT_EQ(counts.pending, 3 * kOfAKind);
    EXPECT_EQ(counts.dead, kOfAKind);
  });
  EXPECT_LT(cost.visited, 6 * kOfAKind);
  cost = cost_of([&] { EXPECT_EQ(admin.list({.status = {Status::dead}}, 0, 10).size(), 10U); });
  EXPECT_LT(cost.visited, 30);
  EXPECT_EQ(cost.sorted, 0);
  cost = cost_of([&] { EXPECT_EQ(admin.count({.status = {Status::dead}}), kOfAKind); });
  EXPECT_LT(cost.visited, 2 * kOfAKind);
  cost = cost_of([&] { EXPECT_EQ(admin.dead_groups({}, 10).size(), 1U); });
  EXPECT_LT(cost.visited, 3 * kOfAKind);
  cost = cost_of([&] { EXPECT_EQ(admin.list({.status = {Status::pending}}, 0, 10).size(), 10U); });
  EXPECT_LT(cost.visited, 5 * kOfAKind);
  cost = cost_of([&] { EXPECT_FALSE(admin.held_aggregates(1'000).empty()); });
  EXPECT_LT(cost.visited, 3 * kOfAKind);
  cost = cost_of([&] { EXPECT_EQ(admin.replay({}, 0, 10).rows, 10); });
  EXPECT_LT(cost.visited, 100);
  cost = cost_of([&] { EXPECT_EQ(admin.discard({}, 0, 10).rows, 10); });
  EXPECT_LT(cost.visited, 100);
  cost = cost_of([&] {
    EXPECT_EQ(admin.purge(Purgeable::dead, host_clock().now() + 1h, 0, 10, true).rows, 10);
  });
  EXPECT_LT(cost.visited, 200);
}

INSTANTIATE_TEST_SUITE_P(All, MysqlCostTest, ::testing::Bool(), [](const auto& each) {
  return each.param ? "StatisticsOfAnEmptyTable" : "StatisticsOfTheTable";
});

}  // namespace
}  // namespace outbox::mysql
