#include "base/reconnection.h"

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

TEST(Reconnection, ThePausesDoubleUpToHalfASecond) {
  Reconnection reconnection;
  auto now = kNow;
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 400ms, 400ms}) {
    EXPECT_TRUE(allowed(reconnection, now));
    reconnection.failed("away", now);
    EXPECT_FALSE(allowed(reconnection, now + pause - 1ms)) << pause.count();
    now += pause * 5 / 4;
  }
}

TEST(Reconnection, AfterALongOutageTheServerIsAskedWithinHalfASecondOfItsReturn) {
  Reconnection reconnection;
  auto now = kNow;
  for (int i = 0; i < 10'000; ++i) {
    now += 10ms;
    if (allowed(reconnection, now)) reconnection.failed("away", now);
  }
  EXPECT_TRUE(allowed(reconnection, now + 500ms));
}

TEST(Reconnection, OneAttemptBeginsAtATimeAndAHangingOneKeepsNobodyFromTrying) {
  Reconnection reconnection;
  reconnection.failed("away", kNow);
  EXPECT_TRUE(allowed(reconnection, kNow + 100ms));  // and hangs
  EXPECT_FALSE(allowed(reconnection, kNow + 101ms)) << "one begins at a time";
  EXPECT_TRUE(allowed(reconnection, kNow + 600ms)) << "which also hangs";
  reconnection.failed("no answer", kNow + 10s);
  EXPECT_TRUE(allowed(reconnection, kNow + 10s)) << "its pause began with it";
}

TEST(Reconnection, ThoseWhoFailTogetherCountAsOne) {
  Reconnection reconnection;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(allowed(reconnection, kNow));
  for (int i = 0; i < 8; ++i) reconnection.failed("away", kNow);
  EXPECT_TRUE(allowed(reconnection, kNow + 63ms)) << "the first pause";
}

TEST(Reconnection, InBetweenCallersAreToldWhatTheLastAttemptWasTold) {
  Reconnection reconnection;
  reconnection.failed("no route", kNow - 1h);
  EXPECT_TRUE(allowed(reconnection, kNow));
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
