// Two processes with the same requests, or the same events, at the same moments: the quick version.
// See race_long_test.cc.
#include "race.h"

#include <gtest/gtest.h>

#include "create_races.h"

namespace outbox::patterns {
namespace {

OUTBOX_ON_EVERY_DATABASE(CreateRaceTest);

TEST_P(CreateRaceTest, TwoProcessesAtTheSameMomentCreateOnce) { race(By::run, 300); }

TEST_P(CreateRaceTest, TwoProcessesThatJoinAtTheSameMomentCreateOnce) { race(By::join, 300); }

TEST_P(CreateRaceTest, TwoProcessesThatTakeOverAtTheSameMomentCreateOnce) {
  leave_failures(100);
  race(By::run, 100);
  EXPECT_EQ(number("SELECT count(*) FROM " + table() + " WHERE attempts = 2"), 100);
}

TEST_P(CreateRaceTest, TwoProcessesThatJoinAndTakeOverAtTheSameMomentCreateOnce) {
  leave_failures(100);
  race(By::join, 100);
}

constexpr std::size_t kEvents = 500;

class InboxRaceQuick : public InboxRace {};

TEST_P(InboxRaceQuick, TwoProcessesWithTheSameEventsAtTheSameMomentHaveOneEffectOfEach) {
  race(kEvents);
}

OUTBOX_ON_EVERY_DATABASE(InboxRaceQuick);

}  // namespace
}  // namespace outbox::patterns
