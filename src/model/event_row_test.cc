#include "model/event_row.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace outbox {
namespace {

using namespace std::chrono_literals;

const Time kNow = time_of(1'800'000'000'000'000);

RowColumns usual() {
  return {.ref = {.seq = 7, .shard = 3, .hold = 0},
          .event_id = "id",
          .event_type = "Happened",
          .available_at = kNow,
          .created_at = kNow - 1s,
          .payload = "{}",
          .read_at = kNow};
}

Row decoded(RowColumns columns) { return decode(std::move(columns), *default_json_codec()); }

Event event_available_at(Time time, Payload payload = json("{}")) {
  EventFields fields;
  fields.id = "id";
  fields.type = "Happened";
  fields.available_at = time;
  fields.payload = std::move(payload);
  return Event::restore(std::move(fields));
}

TEST(LimitTest, TheGreatestNumberIsAsGoodAsNoLimit) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(sql_limit(5), 5);
  EXPECT_EQ(one_more(5), 6);
  EXPECT_EQ(sql_limit(std::numeric_limits<std::size_t>::max()), kMost);
  EXPECT_EQ(one_more(std::numeric_limits<std::size_t>::max()), kMost);
}

TEST(WrittenRowTest, OnlyADelayedEventWaits) {
  EXPECT_EQ(hold_of(event_available_at(kNow), kNow), 0);
  EXPECT_EQ(hold_of(event_available_at(kNow + 1us), kNow), -micros(kNow + 1us));
  EXPECT_EQ(hold_until(Time{}), -1) << "0 would be ready";
}

TEST(WrittenRowTest, AClockThatIsSetWhileItIsWrittenChangesNothing) {
  EventFields fields;
  fields.id = "id";
  fields.type = "Happened";
  fields.occurred_at = kNow;
  fields.available_at = kNow;
  EXPECT_EQ(hold_of(Event::restore(fields), kNow - 1h), 0) << "set back";
  fields.available_at = kNow + 1s;
  fields.delay = 1s;
  EXPECT_EQ(hold_of(Event::restore(fields), kNow + 1h), -micros(kNow + 1s)) << "set forward";
}

TEST(WrittenRowTest, AContentTypeThatThePayloadImpliesIsLeftOut) {
  EXPECT_EQ(content_type_of(event_available_at(kNow, json("{}"))), std::nullopt);
  EXPECT_EQ(content_type_of(event_available_at(kNow, bytes("x"))), std::nullopt);
  EXPECT_EQ(content_type_of(event_available_at(kNow, bytes("x", "image/png"))), "image/png");
}

TEST(ReadRowTest, HasWhatItsColumnsHave) {
  RowColumns columns = usual();
  columns.aggregate_type = "Order";
  columns.aggregate_id = "42";
  columns.tenant_id = "north";
  columns.status = static_cast<std::int64_t>(Status::retry);
  columns.attempts = 4;
  columns.crashes = 1;
  columns.available_at = kNow + 5s;
  columns.progress = "half";
  columns.headers = R"({"a":"b"})";
  const Row row = decoded(columns);
  EXPECT_EQ(row.defect, "");
  EXPECT_EQ(row.ref.seq, 7);
  EXPECT_EQ(row.ref.shard, 3);
  EXPECT_EQ(row.event.id(), "id");
  EXPECT_EQ(row.event.type(), "Happened");
  EXPECT_EQ(row.event.aggregate_type(), "Order");
  EXPECT_EQ(row.event.aggregate_id(), "42");
  EXPECT_EQ(row.event.tenant_id(), "north");
  EXPECT_EQ(row.event.headers(), (Headers{{"a", "b"}}));
  EXPECT_EQ(row.event.payload(), "{}");
  EXPECT_EQ(row.event.occurred_at(), kNow - 1s);
  EXPECT_EQ(row.status, Status::retry);
  EXPECT_EQ(row.attempts, 4);
  EXPECT_EQ(row.crashes, 1);
  EXPECT_EQ(row.progress, "half");
  EXPECT_EQ(row.available_in, 5s);
}

TEST(ReadRowTest, WhatIsAbsentHasItsDefault) {
  EXPECT_EQ(decoded(usual()).event.aggregate_type(), kGlobalAggregate);
  EXPECT_EQ(decoded(usual()).event.content_type(), "application/json");
  RowColumns columns = usual();
  columns.is_json = false;
  EXPECT_EQ(decoded(columns).event.content_type(), "application/octet-stream");
  columns.content_type = "image/png";
  EXPECT_EQ(decoded(columns).event.content_type(), "image/png");
}

TEST(ReadRowTest, WhatCannotBeDecodedIsADefectEach) {
  RowColumns columns = usual();
  columns.event_type = "";
  columns.headers = "{";
  columns.attempts = -1;
  columns.crashes = std::numeric_limits<std::int64_t>::max();
  columns.defect = "the payload is stored as NULL";
  const Row row = decoded(columns);
  EXPECT_TRUE(row.defect.starts_with(
      "the payload is stored as NULL; event_type is empty; headers cannot be decoded: "))
      << row.defect;
  EXPECT_TRUE(
      row.defect.ends_with("; attempts is -1, not between 0 and 1000000000; "
                           "crashes is 9223372036854775807, not between 0 and 1000000000"))
      << row.defect;
  EXPECT_EQ(row.attempts, 0);
  EXPECT_EQ(row.crashes, 1'000'000'000);
}

TEST(ReadRowTest, ADefectiveRowDoesNotWaitForItsTime) {
  RowColumns columns = usual();
  columns.available_at = kNow + 1h;
  columns.event_type = "";
  EXPECT_EQ(decoded(columns).available_in, 0s);
}

using Kind = StatusUpdate::Kind;

bool acked(Kind kind, const RowState& row,
           const std::optional<std::string_view>& claim_owner = std::nullopt) {
  return already_applied({.kind = kind, .attempts = 3, .error = "no stock"}, row, claim_owner);
}

TEST(AlreadyApplied, AFinishedRowIsTheWorkOfTheUpdateOfThatKind) {
  EXPECT_TRUE(acked(Kind::done, {.status = Status::done}));
  EXPECT_FALSE(acked(Kind::done, {.status = Status::dead}));
  EXPECT_FALSE(acked(Kind::done, {.status = Status::retry}));
  EXPECT_TRUE(acked(Kind::dead, {.status = Status::dead}));
  EXPECT_FALSE(acked(Kind::dead, {.status = Status::done}));
}

TEST(AlreadyApplied, WhatAnotherClaimerFinishedIsNot) {
  const RowState row{.status = Status::done, .locked_by = "other"};
  EXPECT_FALSE(acked(Kind::done, row, "me"));
  EXPECT_TRUE(acked(Kind::done, row, "other"));
  EXPECT_TRUE(acked(Kind::done, row)) << "without row claims nobody holds rows";
}

TEST(AlreadyApplied, ARetryIsKnownByItsAttemptsAndError) {
  const RowState row{.status = Status::retry, .attempts = 3, .hold = -1, .last_error = "no stock"};
  EXPECT_TRUE(acked(Kind::retry, row));
  RowState changed = row;
  changed.attempts = 2;
  EXPECT_FALSE(acked(Kind::retry, changed));
  changed = row;
  changed.last_error = "no money";
  EXPECT_FALSE(acked(Kind::retry, changed));
  changed = row;
  changed.locked_by = "other";
  EXPECT_FALSE(acked(Kind::retry, changed)) << "somebody has claimed it since";
}

TEST(AlreadyApplied, WhatWaitsWasDeferredOrHeld) {
  for (const Kind kind : {Kind::defer, Kind::hold}) {
    EXPECT_TRUE(acked(kind, {.status = Status::pending, .hold = 42}));
    EXPECT_FALSE(acked(kind, {.status = Status::pending, .hold = 0}));
    EXPECT_FALSE(acked(kind, {.status = Status::pending, .hold = 42, .locked_by = "other"}));
    EXPECT_FALSE(acked(kind, {.status = Status::done}));
  }
}

TEST(AlreadyApplied, ADeadRowOutsideItsLaneWasUnblocked) {
  EXPECT_TRUE(acked(Kind::unblock, {.status = Status::dead}));
  EXPECT_FALSE(acked(Kind::unblock, {.status = Status::dead, .hold = 42}));
  EXPECT_FALSE(acked(Kind::unblock, {.status = Status::pending}));
}

TEST(AlreadyApplied, ASuspicionIsRaisedAgain) {
  EXPECT_FALSE(acked(Kind::crashes, {.status = Status::pending}));
}

}  // namespace
}  // namespace outbox
