#include "base/rate_limit.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace outbox {
namespace {

using namespace std::chrono_literals;

TEST(RateLimit, AllowsTheFirstAndThenOneInAnInterval) {
  RateLimit limit(10s);
  const Clock::Steady start{};
  EXPECT_TRUE(limit.allow(start));
  EXPECT_FALSE(limit.allow(start));
  EXPECT_FALSE(limit.allow(start + 10s - 1ns));
  EXPECT_TRUE(limit.allow(start + 10s));
  EXPECT_FALSE(limit.allow(start + 19s));
  EXPECT_TRUE(limit.allow(start + 25s));
}

TEST(RateLimit, CountsWhatItSuppressedSinceLastAsked) {
  RateLimit limit(10s);
  EXPECT_EQ(limit.take_suppressed(), 0U);
  for (int i = 0; i < 4; ++i) limit.allow(Clock::Steady{});
  EXPECT_EQ(limit.take_suppressed(), 3U);
  EXPECT_EQ(limit.take_suppressed(), 0U);
}

TEST(RateLimit, AllowsOneOfManyThreads) {
  RateLimit limit(10s);
  std::atomic<int> allowed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 1'000; ++n) allowed += limit.allow(Clock::Steady{}) ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(allowed, 1);
  EXPECT_EQ(limit.take_suppressed(), 3'999U);
}

}  // namespace
}  // namespace outbox
