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

}  // namespace
}  // namespace outbox::patterns
