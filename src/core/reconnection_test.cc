#include "core/reconnection.h"

#include <gtest/gtest.h>

#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

// Some moment.
constexpr Reconnection::Instant kNow{1'000s};

bool allowed(Reconnection& reconnection, Reconnection::Instant now) {
  try {
    reconnection.check(now);
    return true;
  } catch (const RetryableError&) {
    return false;
  }
}

TEST(Reconnection, TheFirstAttemptIsMadeAtOnce) {
  Reconnection reconnection;
  EXPECT_TRUE(allowed(reconnection, kNow));
}

TEST(Reconnection, ThePausesDoubleUpToSomeSeconds) {
  Reconnection reconnection;
  auto now = kNow;
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 800ms, 1'600ms, 3'200ms, 5'000ms, 5'000ms}) {
    reconnection.failed("away", now);
    EXPECT_FALSE(allowed(reconnection, now + pause - 1ms)) << pause.count();
    EXPECT_TRUE(allowed(reconnection, now + pause * 5 / 4)) << pause.count();
    now += pause * 2;
  }
}

TEST(Reconnection, InBetweenCallersAreToldWhatTheLastAttemptWasTold) {
  Reconnection reconnection;
  reconnection.failed("no route", kNow - 1h);
  reconnection.failed("refused", kNow);
  try {
    reconnection.check(kNow + 10ms);
    FAIL() << "it is too early";
  } catch (const RetryableError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("refused; the next attempt is made in ")) << message;
  }
}

TEST(Reconnection, AServerThatIsBackIsAskedAtOnceWhenItGoesAgain) {
  Reconnection reconnection;
  for (int i = 0; i < 5; ++i) reconnection.failed("away", kNow);
  reconnection.succeeded();
  EXPECT_TRUE(allowed(reconnection, kNow));
  reconnection.failed("away again", kNow);
  EXPECT_TRUE(allowed(reconnection, kNow + 63ms)) << "the pauses begin anew";
}

}  // namespace
}  // namespace outbox
