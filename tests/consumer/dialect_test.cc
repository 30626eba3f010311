#include "consumer/dialect.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "database.h"
#include "outbox/error.h"
#include "outbox/memory.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using internal::render_sql;
using test::contains;
using test::message_of;

class DialectTest : public PatternTest {
 protected:
  std::int64_t run(const std::string& sql, const std::vector<Parameter>& values) {
    return store()->connect()->execute(render_sql(sql, *store(), "the test"), values);
  }
  bool holds(const std::string& condition, const std::vector<Parameter>& values = {}) {
    const auto rows = store()->connect()->query(
        render_sql("SELECT CASE WHEN " + condition + " THEN 1 ELSE 0 END", *store(), "the test"),
        values);
    return rows.at(0).get<std::int64_t>(0) == 1;
  }
};

OUTBOX_ON_EVERY_DATABASE(DialectTest);

TEST_P(DialectTest, TimesAreMicrosecondsFromNow) {
  constexpr std::int64_t kMinute = 60'000'000;
  EXPECT_TRUE(holds("{after ?} > {now}", {kMinute}));
  EXPECT_FALSE(holds("{before ?} > {now}", {kMinute}));
  EXPECT_TRUE(holds("{after ?} < {after ?}", {kMinute, kMinute + 30'000'000}));
  EXPECT_TRUE(holds("{before ?} > {before ?}", {kMinute, kMinute + 30'000'000}));
}

// What is now for a table is now for us: not in another unit or time zone.
TEST_P(DialectTest, NowIsWhatTheTablesHold) {
  const std::string insert = "{insert} {inbox} (consumer, event_id, consumed_at) VALUES (?, ?, ";
  run(insert + "{now})", {"billing", "e1"});
  const std::string recent = "SELECT count(*) FROM {inbox} WHERE consumed_at > {before ?}";
  const std::string late = "SELECT count(*) FROM {inbox} WHERE consumed_at > {after ?}";
  const std::vector<Parameter> minute{std::int64_t{60'000'000}};
  const auto count = [&](const std::string& sql) {
    return store()
        ->connect()
        ->query(render_sql(sql, *store(), "the test"), minute)
        .at(0)
        .get<std::int64_t>(0);
  };
  EXPECT_EQ(count(recent), 1);
  EXPECT_EQ(count(late), 0);
}

TEST_P(DialectTest, AnInsertLeavesAloneWhatHasItsKeyAndSaysSo) {
  const std::string insert =
      "{insert} {version} (consumer, aggregate_type, aggregate_id, version, seen_at)"
      " VALUES (?, ?, ?, ?, {now}) {unless there}";
  EXPECT_EQ(run(insert, {"search", "Article", "a1", std::int64_t{1}}), 1);
  EXPECT_EQ(run(insert, {"search", "Article", "a1", std::int64_t{2}}), 0);
  EXPECT_EQ(number("SELECT version FROM " + store()->side_table("version")), 1);
}

TEST(DialectOfMemoryTest, AStoreWithoutSqlIsRefusedByItsNameAndThatOfItsUser) {
  const auto store = memory::open();
  const std::string message =
      message_of<MisuseError>([&] { static_cast<void>(render_sql("{now}", *store, "the inbox")); });
  EXPECT_TRUE(contains(message, "the inbox"));
  EXPECT_TRUE(contains(message, store->description()));
}

}  // namespace
}  // namespace outbox::patterns
