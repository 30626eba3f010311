#include "outbox/retry.h"

#include <gtest/gtest.h>

#include <limits>

#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

ExponentialBackoff without_jitter(std::chrono::milliseconds base, std::chrono::milliseconds max) {
  return ExponentialBackoff{{.base = base, .max = max, .random = [] { return 0.5; }}};
}

TEST(ExponentialBackoff, DoublesFromTheBase) {
  const auto policy = without_jitter(200ms, 60s);
  EXPECT_EQ(policy.delay(1), 200ms);
  EXPECT_EQ(policy.delay(2), 400ms);
  EXPECT_EQ(policy.delay(5), 3200ms);
}

TEST(ExponentialBackoff, StopsAtTheMaximumForAnyNumberOfAttempts) {
  const auto policy = without_jitter(200ms, 60s);
  EXPECT_EQ(policy.delay(10), 60s);
  EXPECT_EQ(policy.delay(std::numeric_limits<int>::max()), 60s);
}

TEST(ExponentialBackoff, SpreadsBetweenHalfAndOneAndAHalf) {
  const ExponentialBackoff low{{.base = 1s, .max = 60s, .random = [] { return 0.0; }}};
  const ExponentialBackoff high{{.base = 1s, .max = 60s, .random = [] { return 0.999; }}};
  EXPECT_EQ(low.delay(1), 500ms);
  EXPECT_EQ(high.delay(1), 1499ms);
}

TEST(ExponentialBackoff, NeverExceedsTheMaximumAfterSpreading) {
  const ExponentialBackoff high{{.base = 1s, .max = 2s, .random = [] { return 0.999; }}};
  EXPECT_EQ(high.delay(2), 2s);
}

TEST(ExponentialBackoff, RefusesAnImpossibleRangeAndNamesIt) {
  try {
    ExponentialBackoff{{.base = 5s, .max = 1s}};
    FAIL() << "accepted base > max";
  } catch (const MisuseError& error) {
    EXPECT_STREQ(error.what(),
                 "retry backoff needs 0 < base <= max, got base = 5000 ms, max = 1000 ms");
  }
}

}  // namespace
}  // namespace outbox
