#include "store/postgres/sql.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "outbox/postgres.h"
#include "store/postgres/position_sql.h"
#include "store/postgres/store_config.h"
#include "support/postgres.h"

namespace outbox::postgres {
namespace {

// A statement, the types of its parameters and some values.
struct Example {
  const Sql& sql;
  std::string types;
  std::string values;
};

const std::string kShardArray = "'{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}'";
const std::string kFloors = "'{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'";
const std::string kKeys = "'{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}'";
const std::string kSome = "'{1,2,3}'";
const std::string kAddresses = kSome + "," + kSome + "," + kSome;

std::vector<Example> reads(bool by_row = true) {
  std::vector<Example> all{
      {sql::kReady, "bigint[], bigint[], bigint", kShardArray + "," + kFloors + ",100"},
      {sql::kHeld, "bigint, bigint, bigint", "1,2,100"},
      {sql::kHeldInOrder, "bigint[], bigint", kKeys + ",100"},
      {sql::kHeldLanes, "bigint, bigint, bigint", "1,0,100"}};
  if (by_row) all.push_back({sql::kReadyInOrder, "bigint[], bigint", kFloors + ",100"});
  return all;
}

std::vector<Example> reads_of_due() {
  return {{sql::kFirstDue, "bigint[]", kShardArray},
          {sql::kNextDue, "bigint[]", kShardArray},
          {sql::kDue, "bigint[], bigint", kShardArray + ",100"}};
}

std::vector<Example> updates() {
  return {{sql::kDone, "text, bigint, bigint[], bigint[], bigint[], text[]",
           "'me',1," + kAddresses + ",'{a,b,c}'"},
          {sql::kRemove, "text, bigint, bigint[], bigint[], bigint[], text[]",
           "'me',1," + kAddresses + ",'{a,b,c}'"},
          {sql::kChange,
           "text, bigint, bigint[], bigint[], bigint[], text[], bigint[], bigint[], bigint[],"
           " bigint[], bigint[], text[], text[]",
           "'me',1," + kAddresses + ",'{a,b,c}'," + kAddresses + "," + kSome + "," + kSome +
               ",'{a,b,c}','{a,b,c}'"},
          {sql::kUnclaim, "bigint[], bigint[], bigint[], text", kAddresses + ",'me'"}};
}

std::vector<Example> by_id() {
  return {{sql::kClaim, "bigint[], text, bigint, bigint, bigint, bigint",
           kShardArray + ",'me',1000,0,100,1000000"},
          {sql::kPayloads, "text[]", "'{1,2,3}'"},
          {sql::kStates, "text[]", "'{1,2,3}'"}};
}

// Plans on a connection as the engine has them.
class PostgresQueryPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_ = std::make_unique<test::Schema>();
    const std::string table = schema_->name() + ".outbox_event";
    open(test::postgres_url(), {.table = table, .progress = progress_});
    const auto config = std::make_shared<StoreConfig>(test::postgres_url());
    config->table = TableName::parse(table);
    config->options.prepare = true;
    config->naming.progress = progress_;
    database_ = std::make_unique<Database>(config);
    database_->go_by_index_alone();
  }

  // Rows of every kind, which the server has statistics of.
  void fill(int rows) {
    run("INSERT INTO {table} (event_id, event_type, payload, status, hold) "
        "SELECT i, 'T', 'x', i % 4, CASE WHEN i % 4 = 1 THEN NULL WHEN i % 4 = 3 THEN nullif(i % "
        "3, 0) "
        "WHEN i % 3 = 0 THEN 0 WHEN i % 3 = 1 THEN i ELSE -i END "
        "FROM generate_series(1, " +
        std::to_string(rows) + ") AS i");
    analyze();
  }
  void analyze() { run("ANALYZE {table}"); }

  // The plan that a server keeps for all values, and the one for these alone.
  std::vector<std::string> plans(const Example& example) {
    run("PREPARE example (" + example.types + ") AS " + std::string(example.sql.text));
    std::vector<std::string> result;
    for (const char* mode : {"force_generic_plan", "force_custom_plan"}) {
      run(std::string("SET plan_cache_mode = ") + mode);
      const auto explained = database_->session().try_script(
          ("EXPLAIN (COSTS OFF) EXECUTE example (" + example.values + ")").c_str());
      std::string& lines = result.emplace_back();
      for (int row = 0; row < PQntuples(explained.get()); ++row) {
        lines.append(PQgetvalue(explained.get(), row, 0)).append("\n");
      }
      EXPECT_GT(PQntuples(explained.get()), 0)
          << example.sql.text << message_of(database_->handle(), explained.get());
    }
    run("DEALLOCATE example");
    return result;
  }

  void expect_index(const std::vector<Example>& examples, const std::string& index) {
    for (const Example& example : examples) {
      for (const std::string& plan : plans(example)) {
        EXPECT_NE(plan.find("using " + index), std::string::npos) << example.sql.text << plan;
        EXPECT_EQ(plan.find("Seq Scan on outbox_event\n"), std::string::npos)
            << example.sql.text << plan;
        EXPECT_EQ(plan.find("Seq Scan on outbox_event "), std::string::npos)
            << example.sql.text << plan;
        EXPECT_EQ(plan.find("Bitmap"), std::string::npos) << example.sql.text << plan;
      }
    }
  }

  void expect_indexes() {
    expect_index(reads(), "outbox_event_hold");
    expect_index(reads_of_due(), "outbox_event_due");
    expect_index(updates(), "outbox_event_hold");
    expect_index(by_id(), "outbox_event_id");
  }

  void run(const std::string& text) {
    database_->session().run_script(config_of(*database_).expand(text), text);
  }

  Progress progress_ = Progress::row;
  std::unique_ptr<test::Schema> schema_;
  std::unique_ptr<Database> database_;
};

// The server keeps a plan until it looks at the table again, a minute later or more: a
// plan that reads an empty table from end to end is still in use when it is long.
TEST_F(PostgresQueryPlanTest, AnEmptyTableIsReadByIndex) {
  analyze();
  expect_indexes();
}

TEST_F(PostgresQueryPlanTest, ATableWithoutStatisticsIsReadByIndex) { expect_indexes(); }

TEST_F(PostgresQueryPlanTest, ASmallTableIsReadByIndex) {
  fill(100);
  expect_indexes();
}

TEST_F(PostgresQueryPlanTest, ALargeTableIsReadByIndex) {
  fill(20'000);
  expect_indexes();
}

// With progress by position: the same reads of what waits, and looks.
class PostgresPositionPlanTest : public PostgresQueryPlanTest {
 protected:
  PostgresPositionPlanTest() { progress_ = Progress::position; }

  static std::vector<Example> looks() {
    std::string snapshots = "'{";
    for (int shard = 0; shard < kShards; ++shard) {
      snapshots += shard == 0 ? "\"700:900:710,720\"" : ",\"700:900:710,720\"";
    }
    snapshots += "}'";
    const std::string parts = kShardArray + "," + kKeys + "," + snapshots;
    return {{sql::kLook, "bigint[], bigint[], text[], bigint[], bigint, bigint",
             parts + "," + kFloors + ",100,100"},
            {sql::kFirstLate, "bigint[], bigint[], text[], text", parts + ",'800:900:'"}};
  }
  static std::vector<Example> reads_by_number() {
    return {{sql::kOpen, "bigint[], bigint[]", kSome + "," + kSome},
            {sql::kLatePage, "bigint[], bigint[], bigint[], text[], bigint, text[], bigint[]",
             kSome + "," + kSome + "," + kSome + ",'{7:9:,7:9:,7:9:}',100,'{8:9:,8:9:,8:9:}'," +
                 kSome}};
  }

  void fill_copies(int rows) {
    run("INSERT INTO {delivery} (subscription, seq, hold, {copied}) SELECT '', seq, 1 + seq % 9, "
        "available_at, created_at, attempts, crashes, 0, shard, event_id, event_type, "
        "aggregate_type, aggregate_id, tenant_id, content_type, progress, headers, last_error, "
        "payload, payload_bytes FROM {table} LIMIT " +
        std::to_string(rows));
    run("ANALYZE {delivery}");
  }

  void expect_indexes_of_positions() {
    expect_index(looks(), "outbox_event_late");
    expect_index({looks().front()}, "outbox_event_order");
    expect_index(reads_by_number(), "outbox_event_order");
    expect_index(reads(false), "outbox_event_waits");
    expect_index(reads_of_due(), "outbox_event_waits");
    for (const std::string& plan : plans(looks().front())) {
      const auto once = plan.find("using outbox_event_order");
      EXPECT_EQ(plan.find("using outbox_event_order", once + 1), std::string::npos)
          << "late rows go by the other index" << plan;
    }
    for (const Example& example : {looks().front(), reads_by_number().back()}) {
      for (const std::string& plan : plans(example)) {
        EXPECT_EQ(plan.find("Sort\n"), std::string::npos) << example.sql.text << plan;
      }
    }
  }
};

TEST_F(PostgresPositionPlanTest, AnEmptyTableIsReadByIndex) {
  analyze();
  expect_indexes_of_positions();
}

TEST_F(PostgresPositionPlanTest, ALargeTableIsReadByIndex) {
  fill(20'000);
  fill_copies(1'000);
  expect_indexes_of_positions();
}

TEST_F(PostgresQueryPlanTest, ReadsInTheOrderOfTheIndexDoNotSort) {
  fill(20'000);
  std::vector<Example> examples = reads();
  for (const Example& example : reads_of_due()) {
    // That one merges the shards by their times.
    if (&example.sql != &sql::kDue) examples.push_back(example);
  }
  for (const Example& example : examples) {
    for (const std::string& plan : plans(example)) {
      // Also where shards are merged: that has a "Sort Key" of its own, and takes them as they
      // come.
      EXPECT_EQ(plan.find("Sort\n"), std::string::npos) << example.sql.text << plan;
    }
  }
}

}  // namespace
}  // namespace outbox::postgres
