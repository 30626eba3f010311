#include <gtest/gtest.h>

#include "outbox/error.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/testing.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

TEST(TimedTracker, KeepsAnEventUntilItIsReleased) {
  testing::ManualClock clock;
  const auto tracker = timed_tracker(1min, clock);
  EXPECT_TRUE(tracker->try_acquire("a"));
  EXPECT_FALSE(tracker->try_acquire("a"));
  tracker->release("a");
  EXPECT_TRUE(tracker->try_acquire("a"));
}

TEST(TimedTracker, ForgetsAnEventAfterItsTime) {
  testing::ManualClock clock;
  const auto tracker = timed_tracker(1min, clock);
  ASSERT_TRUE(tracker->try_acquire("a"));
  clock.advance(59s);
  EXPECT_FALSE(tracker->try_acquire("a"));
  clock.advance(1s);
  EXPECT_TRUE(tracker->try_acquire("a"));
  clock.advance(59s);
  EXPECT_FALSE(tracker->try_acquire("a")) << "its time counts from the last time it was taken";
}

TEST(TimedTracker, RefusesATimeThatIsNotPositive) { EXPECT_THROW(timed_tracker(0ms), MisuseError); }

}  // namespace
}  // namespace outbox
