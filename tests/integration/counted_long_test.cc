#include <gtest/gtest.h>

#include "counted.h"
#include "outbox/memory.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 100'000;
constexpr std::size_t kShared = 50'000;

TEST(CountedLong, KeepsTheOrderOfTwoProcesses) { keep_order_on_sqlite(kEvents); }
TEST(CountedLong, DeliversEachOnceOnTheMemoryStore) { deliver_each_once(memory::open(), kEvents); }
TEST(CountedLong, DeliversEachOnceOnSqlite) { deliver_each_once(temporary_sqlite(), kEvents); }

class PostgresCountedLong : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_POSTGRES(); }
};

TEST_F(PostgresCountedLong, FourInstancesShareTheEventsInOrder) { share_on_postgres(kShared); }
TEST_F(PostgresCountedLong, FourInstancesClaimEachEventOnce) {
  share_on_postgres(kShared, {.ordering = Ordering::none, .row_claims = true});
}
TEST_F(PostgresCountedLong, FourInstancesWithoutOrderDeliverEachOnce) {
  share_on_postgres(kShared, {.ordering = Ordering::none});
}
TEST_F(PostgresCountedLong, DeathsAndTakeOversLoseNothingAndKeepTheOrder) {
  share_through_faults_on_postgres(kShared);
}

}  // namespace
}  // namespace outbox::counted
