#include "model/lane_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace outbox {
namespace {

TEST(LaneKey, IsNoneWithoutAnAggregateId) {
  EXPECT_EQ(lane_key("Order", ""), kNoLane);
  EXPECT_EQ(lane_key("", ""), kNoLane);
}

TEST(LaneKey, KeepsTheValuesThatAreStoredInTables) {
  EXPECT_EQ(lane_key("Order", "42"), 132497329871174207);
  EXPECT_EQ(lane_key("__GLOBAL__", "1"), 2745066888939168314);
  EXPECT_EQ(lane_key("Straße", "größe-7"), 5165591631510775272);
  EXPECT_EQ(lane_key("Customer", "0190b2c4-8a3e-7c11-9d52-6f0f5c1f6a10"), 4928733878144108962);
}

TEST(LaneKey, NeverConfusesWhereTheTypeEndsAndTheIdBegins) {
  EXPECT_NE(lane_key("a:b", "c"), lane_key("a", "b:c"));
  EXPECT_NE(lane_key("ab", "c"), lane_key("a", "bc"));
  EXPECT_NE(lane_key("", "abc"), lane_key("abc", "abc"));
}

TEST(LaneKey, IsPositiveAndDiffersFromOneAggregateToTheNext) {
  std::set<LaneKey> keys;
  for (int i = 0; i < 100'000; ++i) {
    const LaneKey key = lane_key("Order", std::to_string(i));
    ASSERT_GT(key, 0);
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), 100'000U);
}

}  // namespace
}  // namespace outbox
