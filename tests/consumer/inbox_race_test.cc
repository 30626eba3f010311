// The quick version; see inbox_race_long_test.cc.
#include <gtest/gtest.h>

#include "race.h"

namespace outbox::patterns {
namespace {

constexpr std::size_t kEvents = 500;

class InboxRaceQuick : public InboxRace {};

TEST_P(InboxRaceQuick, TwoProcessesWithTheSameEventsAtTheSameMomentHaveOneEffectOfEach) {
  race(kEvents);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, InboxRaceQuick, ::testing::Values(chaos::kSqlite));
#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, InboxRaceQuick, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, InboxRaceQuick, ::testing::Values(chaos::kMysql));
#endif

}  // namespace
}  // namespace outbox::patterns
