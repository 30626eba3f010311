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

}  // namespace
}  // namespace outbox::patterns
