#include "model/breaker.h"

#include <gtest/gtest.h>

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;

constexpr Clock::Steady kNow{std::chrono::hours{1}};

class BreakerTest : public ::testing::Test {
 protected:
  // How many calls may start at once now; leaves them running.
  int starts() {
    int n = 0;
    for (; n < 100 && breaker.may_start(); ++n) breaker.started();
    return n;
  }

  Route route{};
  Breaker breaker{route, 4, {.pause = 200ms, .max_pause = 500ms}};
};

TEST_F(BreakerTest, AHealthyListenerGetsAnyNumberOfCalls) {
  EXPECT_TRUE(breaker.closed());
  EXPECT_EQ(starts(), 100);
}

TEST_F(BreakerTest, AfterACallThatFoundNobodyNoneStartsForAPause) {
  breaker.started();
  breaker.unavailable(kNow);
  EXPECT_FALSE(breaker.may_start());
  EXPECT_EQ(breaker.paused_until(), kNow + 200ms);
  breaker.tick(kNow + 199ms);
  EXPECT_FALSE(breaker.may_start());
  breaker.tick(kNow + 200ms);
  EXPECT_EQ(starts(), 1) << "one to probe";
}

TEST_F(BreakerTest, TheCallsThatWereUnderWayDoNotLengthenThePause) {
  breaker.started();
  breaker.started();
  breaker.unavailable(kNow);
  breaker.unavailable(kNow + 100ms);
  EXPECT_EQ(breaker.paused_until(), kNow + 200ms);
}

TEST_F(BreakerTest, PausesGrowUpToTheLongestWhileItStaysUnavailable) {
  Clock::Steady now = kNow;
  for (const auto pause : {200ms, 400ms, 500ms, 500ms}) {
    breaker.started();
    breaker.unavailable(now);
    EXPECT_EQ(breaker.paused_until(), now + pause);
    now += pause;
    breaker.tick(now);
  }
}

TEST_F(BreakerTest, ACallThatHangsKeepsNoProbeFromStarting) {
  breaker.started();
  breaker.started();
  breaker.unavailable(kNow);
  breaker.tick(kNow + 200ms);
  ASSERT_EQ(starts(), 0) << "one is under way, and may tell";
  breaker.hangs();
  ASSERT_EQ(starts(), 1);
  breaker.answered();
  breaker.returns();
  EXPECT_EQ(starts(), 1) << "it counts again, as one of two";
}

TEST_F(BreakerTest, ItComesBackGently) {
  breaker.started();
  breaker.unavailable(kNow);
  breaker.tick(kNow + 200ms);
  ASSERT_EQ(starts(), 1);
  breaker.answered();
  EXPECT_FALSE(breaker.closed());
  ASSERT_EQ(starts(), 2);
  breaker.answered();
  EXPECT_TRUE(breaker.closed()) << "as many as there are workers: all is well";
}

TEST_F(BreakerTest, ASuccessEndsTheGrowthOfThePauses) {
  breaker.started();
  breaker.unavailable(kNow);
  breaker.tick(kNow + 200ms);
  breaker.started();
  breaker.answered();
  breaker.started();
  breaker.unavailable(kNow + 300ms);
  EXPECT_EQ(breaker.paused_until(), kNow + 500ms);
}

}  // namespace
}  // namespace outbox::internal
