#include "store/sqlite/sql.h"

#include "store/sqlite/admin_sql.h"
#include "store/sqlite/store_config.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

class QueryPlanTest : public SqliteTest {
 protected:
  QueryPlanTest() {
    // Statistics of a large table must not tempt SQLite away from the index.
    db_.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
        "INSERT INTO outbox_event (event_id, event_type, payload, status, hold) "
        "SELECT 'e' || i, 'T', '{}', i % 4, "
        "CASE WHEN i % 2 = 0 THEN CASE i % 3 WHEN 0 THEN 0 WHEN 1 THEN i ELSE -i END END FROM n");
    db_.run("ANALYZE");
  }

  // The steps of the plan, one a line.
  std::string plan(const Sql& sql) {
    std::string lines;
    for (const std::string& step :
         db_.column("EXPLAIN QUERY PLAN " + expand(sql.text, "outbox_event"), 3)) {
      lines += step + "\n";
    }
    return lines;
  }

  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
};

TEST_F(QueryPlanTest, EveryReadOfTheEngineIsServedByTheIndexWithoutScanOrSort) {
  for (const Sql* sql : {&sql::kReady, &sql::kEarliest, &sql::kDueAt, &sql::kHeld, &sql::kHeldLane,
                         &sql::kClaimableReady, &sql::kClaimableDue, &sql::kLaneOverview}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "outbox_event_hold")) << sql->text;
    EXPECT_EQ(steps.find("SCAN outbox_event"), std::string::npos) << sql->text << steps;
    EXPECT_EQ(steps.find("TEMP B-TREE"), std::string::npos) << sql->text << steps;
  }
}

TEST_F(QueryPlanTest, EveryUpdateGoesStraightToItsRow) {
  for (const Sql* sql : {&sql::kDone, &sql::kDoneMany, &sql::kRemove, &sql::kRemoveMany,
                         &sql::kRetry, &sql::kDefer, &sql::kDead, &sql::kHold, &sql::kCrashes,
                         &sql::kState, &sql::kClaim, &sql::kUnclaim, &sql::kUninsert}) {
    EXPECT_TRUE(contains(plan(*sql), "SEARCH outbox_event USING INTEGER PRIMARY KEY"))
        << sql->text << plan(*sql);
  }
}

TEST_F(QueryPlanTest, FinishedRowsCostOperatorsNothing) {
  for (const Sql* sql : {&sql::kHasPending, &sql::kCountPending, &sql::kClaimedBy}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "USING INDEX outbox_event_hold")) << steps;
    EXPECT_EQ(steps.find("SCAN outbox_event\n"), std::string::npos) << steps;
  }
  EXPECT_TRUE(contains(plan(sql::kCountAllDead), "outbox_event_dead"));
  for (const Sql* sql : {&sql::kFind, &sql::kReplay, &sql::kDiscard, &sql::kExists}) {
    EXPECT_TRUE(contains(plan(*sql), "(event_id=?)")) << plan(*sql);
  }
}

TEST_F(QueryPlanTest, BrokenRowsAreFoundByTheirOwnIndex) {
  for (const Sql* sql : {&sql::kCountBroken, &sql::kFirstBroken}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "outbox_event_broken")) << steps;
    EXPECT_EQ(steps.find("TEMP B-TREE"), std::string::npos) << steps;
  }
}

TEST_F(QueryPlanTest, DelaysAreFoundByTheirOwnIndex) {
  for (const Sql* sql : {&sql::kWaiting, &sql::kFutureWait, &sql::kRestartDelays}) {
    EXPECT_TRUE(contains(plan(*sql), "outbox_event_waits")) << plan(*sql);
  }
  EXPECT_TRUE(contains(plan(sql::kFutureWait), "(locked_at>?")) << plan(sql::kFutureWait);
}

TEST_F(QueryPlanTest, WhatIsAskedOfTheDeadIsServedByTheirIndexes) {
  for (const Sql* sql : {&sql::kListDead, &sql::kMatchDead, &sql::kOldDead}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "outbox_event_dead_row (status=? AND rowid>?)")) << sql->text;
    EXPECT_EQ(steps.find("TEMP B-TREE"), std::string::npos) << sql->text << steps;
  }
  for (const Sql* sql : {&sql::kCountDead, &sql::kCountAllDead, &sql::kDeadGroups}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "outbox_event_dead")) << sql->text << steps;
  }
  EXPECT_TRUE(contains(plan(sql::kCountOldDead), "outbox_event_dead (done_at<?)"))
      << plan(sql::kCountOldDead);
}

TEST_F(QueryPlanTest, WhatIsAskedOfTheUnfinishedIsServedByTheirIndex) {
  for (const Sql* sql : {&sql::kListUnfinished, &sql::kCountUnfinished}) {
    EXPECT_TRUE(contains(plan(*sql), "USING INDEX outbox_event_hold")) << sql->text << plan(*sql);
  }
}

TEST_F(QueryPlanTest, AWalkOverTheTableGoesOnWhereItWas) {
  for (const Sql* sql : {&sql::kListAny, &sql::kMatchAny, &sql::kOld}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "USING INTEGER PRIMARY KEY (rowid>?)")) << sql->text << steps;
    EXPECT_EQ(steps.find("TEMP B-TREE"), std::string::npos) << sql->text << steps;
  }
}

TEST_F(QueryPlanTest, BulkChangesGoStraightToTheirRows) {
  for (const Sql* sql : {&sql::kReplayMany, &sql::kDiscardMany, &sql::kArchive, &sql::kPurge}) {
    const std::string steps = plan(*sql);
    EXPECT_TRUE(contains(steps, "rowid=?")) << steps;
    EXPECT_EQ(steps.find("SCAN outbox_event"), std::string::npos) << steps;
  }
}

TEST(Names, AreFilledIn) {
  EXPECT_EQ(expand("SELECT {columns_} FROM {table} JOIN {instance}", "t"),
            "SELECT \"t_columns_\" FROM \"t\" JOIN \"t_instance\"");
  EXPECT_EQ(expand("no names", "t"), "no names");
}

}  // namespace
}  // namespace outbox::sqlite
