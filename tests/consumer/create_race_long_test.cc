#include "create_races.h"

namespace outbox::patterns {
namespace {

INSTANTIATE_TEST_SUITE_P(Sqlite, CreateRaceTest, ::testing::Values(chaos::kSqlite));
#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, CreateRaceTest, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, CreateRaceTest, ::testing::Values(chaos::kMysql));
#endif

TEST_P(CreateRaceTest, TwoProcessesAtTheSameMomentCreateOnceInManyRounds) { race(By::run, 10'000); }

TEST_P(CreateRaceTest, TwoProcessesThatJoinAtTheSameMomentCreateOnceInManyRounds) {
  race(By::join, 10'000);
}

}  // namespace
}  // namespace outbox::patterns
