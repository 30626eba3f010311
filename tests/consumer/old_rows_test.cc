#include "consumer/old_rows.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <string>

#include "database.h"
#include "outbox/error.h"
#include "outbox/testing.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;
using internal::OldRows;
using internal::OldRowsOptions;
using test::contains;
using test::eventually;
using test::message_of;

class OldRowsTest : public PatternTest {
 protected:
  OldRowsOptions options() const {
    return {.what = "inbox",
            .table = "{inbox}",
            .key = "consumer, event_id",
            .since = "consumed_at",
            .retention = 24h,
            .interval = 1h,
            .batch = 3,
            .log = log_.log()};
  }

  // So many rows of a consumer, so old.
  void add(const std::string& consumer, int rows, std::chrono::seconds age) {
    const std::string seconds = std::to_string(age.count());
    std::string then = "(CAST(strftime('%s', 'now') AS INTEGER) - " + seconds + ") * 1000000";
    if (dialect() == Dialect::postgres) then = "now() - " + seconds + " * interval '1 s'";
    if (dialect() == Dialect::mysql) then = "utc_timestamp(6) - INTERVAL " + seconds + " SECOND";
    for (int n = 0; n < rows; ++n) {
      std::string insert =
          "INSERT INTO " + inbox() + " (consumer, event_id, consumed_at) VALUES ('";
      insert.append(consumer).append("', '").append(std::to_string(n)).append("', ");
      execute(insert.append(then).append(")"));
    }
  }
  std::int64_t rows_of(const std::string& consumer) {
    return number("SELECT count(*) FROM " + inbox() + " WHERE consumer = '" + consumer + "'");
  }
  std::string inbox() const { return store()->side_table("inbox"); }

  testing::RecordingLog log_;
};

OUTBOX_ON_EVERY_DATABASE(OldRowsTest);

TEST_P(OldRowsTest, WhatIsOldGoesInBatchesAndWhatIsYoungStays) {
  add("old", 8, 24h + 1min);
  add("young", 4, 24h - 1min);
  OldRows rows(store(), options(), "InboxOptions");
  EXPECT_EQ(rows.purge({}), 8);
  EXPECT_EQ(rows_of("old"), 0);
  EXPECT_EQ(rows_of("young"), 4);
  EXPECT_EQ(rows.purge({}), 0);
}

TEST_P(OldRowsTest, AConditionKeepsOldRows) {
  add("old", 4, 48h);
  add("kept", 4, 48h);
  OldRowsOptions some = options();
  some.condition = "consumer <> 'kept' AND {now} > consumed_at";
  OldRows rows(store(), some, "InboxOptions");
  EXPECT_EQ(rows.purge({}), 4);
  EXPECT_EQ(rows_of("kept"), 4);
}

TEST_P(OldRowsTest, AStopLeavesTheRest) {
  add("old", 4, 48h);
  OldRows rows(store(), options(), "InboxOptions");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(rows.purge(stop.get_token()), 0);
  EXPECT_EQ(rows_of("old"), 4);
}

TEST_P(OldRowsTest, TheLongestRetentionIsForEver) {
  add("old", 1, std::chrono::hours{24 * 365 * 20});
  OldRowsOptions for_ever = options();
  for_ever.retention = std::chrono::seconds::max();
  OldRows rows(store(), for_ever, "InboxOptions");
  EXPECT_EQ(rows.purge({}), 0);
}

TEST_P(OldRowsTest, OnAScheduleItSaysHowManyWent) {
  add("old", 5, 48h);
  OldRows rows(store(), options(), "InboxOptions");
  rows.schedule().start();
  EXPECT_TRUE(eventually([&] { return log_.contains("purge of the inbox: removed 5 records"); }));
  rows.schedule().close();
  EXPECT_EQ(rows_of("old"), 0);
}

TEST_P(OldRowsTest, InvalidOptionsAreRefusedByName) {
  const auto message = [&](auto change) {
    OldRowsOptions changed = options();
    change(changed);
    return message_of<MisuseError>([&] { OldRows(store(), changed, "InboxOptions"); });
  };
  EXPECT_TRUE(contains(message([](auto& o) { o.retention = 0s; }),
                       "InboxOptions::retention must be positive, got 0 s"));
  EXPECT_TRUE(contains(message([](auto& o) { o.interval = -1ms; }),
                       "InboxOptions::purge_interval must be positive, got -1 ms"));
  EXPECT_TRUE(contains(message([](auto& o) { o.batch = 0; }),
                       "InboxOptions::purge_batch must be positive, got 0"));
}

}  // namespace
}  // namespace outbox::patterns
