#include <gtest/gtest.h>

#include "create_races.h"
#include "race.h"

namespace outbox::patterns {
namespace {

OUTBOX_ON_EVERY_DATABASE(CreateRaceTest);

TEST_P(CreateRaceTest, TwoProcessesAtTheSameMomentCreateOnceInManyRounds) { race(By::run, 10'000); }

TEST_P(CreateRaceTest, TwoProcessesThatJoinAtTheSameMomentCreateOnceInManyRounds) {
  race(By::join, 10'000);
}

constexpr std::size_t kEvents = 10'000;

class InboxRaceLong : public InboxRace {};

TEST_P(InboxRaceLong, TwoProcessesWithTheSameEventsAtTheSameMomentHaveOneEffectOfEach) {
  race(kEvents);
}

OUTBOX_ON_EVERY_DATABASE(InboxRaceLong);

}  // namespace
}  // namespace outbox::patterns
