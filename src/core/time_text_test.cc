#include "core/time_text.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

using namespace std::chrono_literals;

TEST(TimeText, IsUtcWithMicroseconds) {
  EXPECT_EQ(time_text(Time{}), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(time_text(Time{1'709'251'199s + 7us}), "2024-02-29T23:59:59.000007Z");
  EXPECT_EQ(time_text(Time{-1us}), "1969-12-31T23:59:59.999999Z");
}

TEST(TimeText, ReachesFromBoundToBound) {
  EXPECT_EQ(time_text(kEarliestTime), "1000-01-01T00:00:00.000000Z");
  EXPECT_EQ(time_text(kLatestTime), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(time_text(Time::max()), "9223372036854775807 us since 1970");
  EXPECT_EQ(time_text(Time::min()), "-9223372036854775808 us since 1970");
}

}  // namespace
}  // namespace outbox
