#include "base/schedule.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "outbox/error.h"
#include "outbox/testing.h"

namespace outbox::internal {
namespace {

using namespace std::chrono_literals;

class ScheduleTest : public ::testing::Test {
 protected:
  ScheduleOptions options(std::chrono::milliseconds interval) {
    return {.what = "test", .thread = "outbox-test", .interval = interval, .log = log.log()};
  }

  testing::RecordingLog log;
  testing::Signal called;
};

TEST_F(ScheduleTest, BeginsAtOnceAndGoesOn) {
  Schedule often(options(1ms), [&](const std::stop_token&) { called.raise(); });
  EXPECT_EQ(called.count(), 0u);
  often.start();
  EXPECT_TRUE(called.wait(5));

  testing::Signal once;
  Schedule seldom(options(24h), [&](const std::stop_token&) { once.raise(); });
  seldom.start();
  EXPECT_TRUE(once.wait()) << "it does not wait for the interval first";
  seldom.close();  // nor does close()
  EXPECT_EQ(once.count(), 1u);
}

TEST_F(ScheduleTest, WhatIsThrownIsLoggedAndTheNextRoundComes) {
  Schedule schedule(options(1ms), [&](const std::stop_token&) {
    called.raise();
    if (called.count() == 1) throw std::runtime_error("the database is unreachable");
    if (called.count() == 2) throw 5;  // NOLINT: not an exception
  });
  schedule.start();
  EXPECT_TRUE(called.wait(3));
  EXPECT_TRUE(log.contains("test failed: the database is unreachable"));
  EXPECT_TRUE(log.contains("not an exception"));
}

TEST_F(ScheduleTest, CloseStopsTheWorkAndWaitsForIt) {
  std::atomic<bool> ended = false;
  Schedule schedule(options(1ms), [&](const std::stop_token& stop) {
    called.raise();
    EXPECT_TRUE(sleep_for(1h, stop));
    ended = true;
  });
  schedule.start();
  ASSERT_TRUE(called.wait());
  schedule.close();
  EXPECT_TRUE(ended);
  EXPECT_EQ(called.count(), 1u);
  schedule.close();
}

TEST_F(ScheduleTest, StartIsOnceAndNotAfterClose) {
  Schedule schedule(options(1h), [](const std::stop_token&) {});
  schedule.start();
  EXPECT_THROW(schedule.start(), MisuseError);
  Schedule closed(options(1h), [](const std::stop_token&) {});
  closed.close();
  closed.close();
  EXPECT_THROW(closed.start(), MisuseError);
}

TEST_F(ScheduleTest, TheWorkCannotCloseIt) {
  std::atomic<Schedule*> self = nullptr;
  Schedule schedule(options(1ms), [&](const std::stop_token&) {
    if (self.load() == nullptr) return;
    called.raise();
    self.load()->close();
  });
  self = &schedule;
  schedule.start();
  EXPECT_TRUE(called.wait(2)) << "it goes on";
  EXPECT_TRUE(log.contains("would wait for itself"));
}

TEST_F(ScheduleTest, AnIntervalMustBePositive) {
  for (const auto bad : {0ms, -1ms}) {
    EXPECT_THROW(Schedule(options(bad), [](const std::stop_token&) {}), MisuseError);
  }
}

TEST_F(ScheduleTest, APauseOfAnyLengthCanBeStopped) {
  std::stop_source stop;
  EXPECT_FALSE(sleep_for(0ns, stop.get_token()));
  EXPECT_FALSE(sleep_for(-1h, stop.get_token()));
  EXPECT_FALSE(sleep_for(1ms, {}));
  stop.request_stop();
  EXPECT_TRUE(sleep_for(std::chrono::nanoseconds::max(), stop.get_token()));
}

}  // namespace
}  // namespace outbox::internal
