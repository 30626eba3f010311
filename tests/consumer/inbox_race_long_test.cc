#include <gtest/gtest.h>

#include "race.h"

namespace outbox::patterns {
namespace {

constexpr std::size_t kEvents = 10'000;

class InboxRaceLong : public InboxRace {};

TEST_P(InboxRaceLong, TwoProcessesWithTheSameEventsAtTheSameMomentHaveOneEffectOfEach) {
  race(kEvents);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, InboxRaceLong, ::testing::Values(chaos::kSqlite));
#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, InboxRaceLong, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, InboxRaceLong, ::testing::Values(chaos::kMysql));
#endif

}  // namespace
}  // namespace outbox::patterns
