#include "store/common/admin.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

TEST(StatusBits, EachStatusHasItsBit) {
  EXPECT_EQ(bits({}), 0);
  EXPECT_EQ(bits({Status::pending, Status::retry}), 0b0101);
  EXPECT_EQ(bits({Status::done, Status::dead, Status::dead}), 0b1010);
}

TEST(StatusBits, AReplayTakesTheDeadUnlessItNamesOthersThatAreFinished) {
  EXPECT_EQ(replayable({}), bit(Status::dead));
  EXPECT_EQ(replayable({.status = {Status::done}}), bit(Status::done));
  EXPECT_EQ(replayable({.status = {Status::done, Status::retry}}), bit(Status::done));
  EXPECT_EQ(replayable({.status = {Status::pending}}), 0);
}

TEST(BulkStep, TakesAsManyAsItMayAndSaysWhetherThereAreMore) {
  BulkStep<std::string> step(4, 2);
  EXPECT_TRUE(step.add(7, "a"));
  EXPECT_TRUE(step.add(9, "b"));
  EXPECT_FALSE(step.changed(2).more);
  EXPECT_FALSE(step.add(12, "c"));
  EXPECT_EQ(step.keys(), (std::vector<std::string>{"a", "b"}));
  const Changed changed = step.changed(1);
  EXPECT_EQ(changed.rows, 1);
  EXPECT_EQ(changed.through, 9);
  EXPECT_TRUE(changed.more);
}

TEST(BulkStep, WithoutRowsIsThroughWhereItBegan) {
  BulkStep<Seq> step(4, 2);
  EXPECT_EQ(step.changed(0).through, 4);
  EXPECT_FALSE(step.changed(0).more);
}

TEST(StatusBits, TheStatementWithTheNarrowestIndexServes) {
  const std::string dead = "dead", unfinished = "unfinished", any = "any";
  const auto served = [&](const std::vector<Status>& statuses) {
    return serving(bits(statuses), dead, unfinished, any);
  };
  EXPECT_EQ(served({}), "any");
  EXPECT_EQ(served({Status::dead}), "dead");
  EXPECT_EQ(served({Status::retry}), "unfinished");
  EXPECT_EQ(served({Status::pending, Status::retry}), "unfinished");
  EXPECT_EQ(served({Status::dead, Status::retry}), "any");
  EXPECT_EQ(served({Status::done}), "any");
}

TEST(StatusBits, APurgeOfEverythingLooksForNoStatus) {
  EXPECT_EQ(status_of(Purgeable::done), static_cast<std::int64_t>(Status::done));
  EXPECT_EQ(status_of(Purgeable::dead), static_cast<std::int64_t>(Status::dead));
  EXPECT_EQ(status_of(Purgeable::any_age), std::nullopt);
}

HeldAggregate row(const std::string& aggregate, const std::string& event) {
  return {.aggregate_type = "Order", .aggregate_id = aggregate, .head_id = event};
}

TEST(HeldAggregates, TheFirstRowIsTheHeadAndTheOthersWait) {
  HeldAggregates held(10);
  held.begin_lane();
  for (const char* event : {"a", "b", "c"}) held.add(row("42", event));
  const auto all = held.take();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].head_id, "a");
  EXPECT_EQ(all[0].waiting, 2);
}

TEST(HeldAggregates, AggregatesWhoseKeysCollideAreToldApart) {
  HeldAggregates held(10);
  held.begin_lane();
  for (const char* aggregate : {"1", "2", "1"}) held.add(row(aggregate, "x"));
  const auto all = held.take();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].waiting, 1);
  EXPECT_EQ(all[1].waiting, 0);
}

TEST(HeldAggregates, AFullListTakesNoMoreAggregatesButCountsOn) {
  HeldAggregates held(1);
  held.begin_lane();
  EXPECT_FALSE(held.full());
  for (const char* aggregate : {"1", "2", "1"}) held.add(row(aggregate, "x"));
  EXPECT_TRUE(held.full());
  const auto all = held.take();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].waiting, 1);
}

}  // namespace
}  // namespace outbox
