#include "engine/recovery.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace outbox::internal {
namespace {

// Notes which groups begin. An event of the aggregate type "Hung" is in flight already.
class Groups final : public Intake {
 public:
  std::size_t room() override { return 1'000; }
  std::size_t in_flight() override { return 0; }
  bool handle(Row) override { return true; }
  void isolate(bool on) override { isolating = on; }
  std::size_t deliver_isolated(std::vector<Row> rows) override {
    sizes.push_back(rows.size());
    defects.push_back(rows.front().defect);
    std::size_t known = 0;
    for (const Row& row : rows) known += row.event.aggregate_type() == "Hung" ? 1u : 0u;
    return known;
  }

  bool isolating = false;
  std::vector<std::size_t> sizes;
  std::vector<std::string> defects;
};

std::vector<Row> rows(std::size_t n, int crashes, const std::string& aggregate_type = "Order") {
  std::vector<Row> result;
  for (std::size_t i = 0; i < n; ++i) {
    Row row{.ref = {.seq = static_cast<Seq>(i + 1)},
            .event = Event::restore({.id = std::to_string(i),
                                     .type = "Happened",
                                     .aggregate_type = aggregate_type,
                                     .aggregate_id = "1"})};
    row.crashes = crashes;
    result.push_back(std::move(row));
  }
  return result;
}

class RecoveryTest : public ::testing::Test {
 protected:
  Groups groups;
  Recovery recovery{groups, 2};
};

TEST_F(RecoveryTest, IsolatesFromTheFirstCandidateToTheEnd) {
  recovery.add(0);
  EXPECT_FALSE(recovery.under_way()) << "its owner left in order";
  recovery.add(3);
  EXPECT_TRUE(recovery.under_way());
  EXPECT_TRUE(groups.isolating);
  recovery.end();
  EXPECT_FALSE(recovery.under_way());
  EXPECT_FALSE(groups.isolating);
  EXPECT_EQ(recovery.left(), 0u);
}

TEST_F(RecoveryTest, GroupsShrinkWithEveryDeath) {
  for (const auto& [crashes, size] : {std::pair{0, 64u}, {1, 8u}, {2, 1u}, {3, 1u}}) {
    recovery.end();
    recovery.add(100);
    EXPECT_TRUE(recovery.try_group(rows(100, crashes)));
    EXPECT_EQ(groups.sizes.back(), size) << crashes << " deaths";
    EXPECT_EQ(recovery.left(), 100u - size);
  }
}

TEST_F(RecoveryTest, TriesNoMoreThanTheOldOwnerCanHaveHeld) {
  recovery.add(5);
  EXPECT_TRUE(recovery.try_group(rows(20, 0)));
  EXPECT_EQ(groups.sizes, (std::vector<std::size_t>{5}));
  EXPECT_EQ(recovery.left(), 0u);
}

TEST_F(RecoveryTest, AGroupHoldsWhatHasSeenEquallyManyDeaths) {
  std::vector<Row> found = rows(3, 0);
  for (Row& row : rows(2, 1)) found.push_back(std::move(row));
  recovery.add(10);
  EXPECT_TRUE(recovery.try_group(std::move(found)));
  EXPECT_EQ(groups.sizes, (std::vector<std::size_t>{3}));
}

TEST_F(RecoveryTest, WhatHangsIsNoGroup) {
  std::vector<Row> found = rows(1, 2, "Hung");
  for (Row& row : rows(1, 2)) found.push_back(std::move(row));
  recovery.add(10);
  EXPECT_TRUE(recovery.try_group(std::move(found)));
  EXPECT_EQ(groups.sizes, (std::vector<std::size_t>{1, 1})) << "the next one was tried instead";
  EXPECT_EQ(recovery.left(), 9u);
  EXPECT_FALSE(recovery.try_group(rows(1, 2, "Hung")));
}

TEST_F(RecoveryTest, TheHeadOfALaneIsTriedOnce) {
  recovery.add(2);
  EXPECT_TRUE(recovery.probe(7));
  EXPECT_EQ(recovery.left(), 1u);
  EXPECT_FALSE(recovery.probe(7));
  EXPECT_EQ(recovery.left(), 1u);
}

TEST_F(RecoveryTest, WhatKilledTooOftenIsNotTriedAgain) {
  recovery.add(2);
  EXPECT_TRUE(recovery.try_group(rows(1, 3)));
  EXPECT_EQ(groups.defects.back(), "");
  EXPECT_TRUE(recovery.try_group(rows(1, 4)));
  EXPECT_EQ(groups.defects.back(),
            "the process died 4 times while it was being delivered, the last 2 times alone");
}

TEST_F(RecoveryTest, OfClaimedRowsTheOthersAreGivenBack) {
  std::vector<Row> claimed = rows(1, 1);
  for (Row& row : rows(3, 2)) claimed.push_back(std::move(row));
  for (Row& row : rows(9, 1)) claimed.push_back(std::move(row));
  recovery.add_claimed(std::move(claimed));
  EXPECT_TRUE(recovery.under_way());
  ASSERT_TRUE(recovery.any_claimed());
  const Recovery::Group group = recovery.take_claimed();
  EXPECT_EQ(group.rows.size(), 8u) << "those with one death";
  EXPECT_EQ(group.others.size(), 5u);
  EXPECT_FALSE(recovery.any_claimed());
}

}  // namespace
}  // namespace outbox::internal
