#include "outbox/clock.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

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
