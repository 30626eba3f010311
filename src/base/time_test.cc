#include <gtest/gtest.h>

#include "base/time_text.h"
#include "outbox/clock.h"

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

TEST(TimeText, IsReadAsItWasWritten) {
  for (const Time time : {Time{}, Time{1'709'251'199s + 7us}, kEarliestTime, kLatestTime}) {
    EXPECT_EQ(parse_time(time_text(time)), time);
  }
}

TEST(TimeText, OfOtherProgramsIsReadAsWell) {
  const Time noon{1'772'366'400s};
  EXPECT_EQ(parse_time("2026-03-01T12:00:00Z"), noon);
  EXPECT_EQ(parse_time("2026-03-01T12:00:00.5Z"), noon + 500ms);
  EXPECT_EQ(parse_time("2026-03-01T12:00:00.123456789Z"), noon + 123456us);
  EXPECT_EQ(parse_time("2026-03-01T14:00:00+02:00"), noon);
  EXPECT_EQ(parse_time("2026-03-01T10:30:00-01:30"), noon);
  for (const char* bad :
       {"", "2026-03-01", "2026-03-01T12:00:00", "2026-02-29T12:00:00Z", "2026-03-01T24:00:00Z",
        "2026-03-01T12:00:00.Z", "2026-03-01T12:00:00Zx", "0999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00", "-026-03-01T12:00:00Z"}) {
    EXPECT_EQ(parse_time(bad), std::nullopt) << bad;
  }
}

TEST(HostClock, TellsTheTimeOfDayInWholeMicroseconds) {
  const auto before = std::chrono::system_clock::now() - std::chrono::microseconds{1};
  const Time now = host_clock().now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, std::chrono::system_clock::now());
}

TEST(HostClock, NeverGoesBack) {
  Clock::Steady last = host_clock().steady();
  for (int i = 0; i < 1'000; ++i) {
    const Clock::Steady next = host_clock().steady();
    ASSERT_LE(last, next);
    last = next;
  }
}

TEST(HostClock, CountsTheTimeThatTheMachineWasSuspended) {
  EXPECT_GE(host_clock().steady() + std::chrono::milliseconds{1}, std::chrono::steady_clock::now());
}

}  // namespace

}  // namespace outbox
