#include <gtest/gtest.h>

#include "postgres_counted.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 50'000;
const FleetOptions kWithoutOrder{.ordering = Ordering::none};
const FleetOptions kRowClaims{.ordering = Ordering::none, .row_claims = true};

class PostgresCountedLong : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_POSTGRES(); }
};

TEST_F(PostgresCountedLong, FourInstancesShareTheEventsInOrder) { share_on_postgres(kEvents); }
TEST_F(PostgresCountedLong, FourInstancesWithoutOrderDeliverEachOnce) {
  share_on_postgres(kEvents, kWithoutOrder);
}
TEST_F(PostgresCountedLong, FourInstancesClaimEachEventOnce) {
  share_on_postgres(kEvents, kRowClaims);
}
TEST_F(PostgresCountedLong, DeathsAndTakeOversLoseNothingAndKeepTheOrder) {
  share_through_faults_on_postgres(kEvents);
}
TEST_F(PostgresCountedLong, DeathsAndTakeOversWithoutOrderLoseNothing) {
  share_through_faults_on_postgres(kEvents, kWithoutOrder);
}
TEST_F(PostgresCountedLong, DeathsAndExpiredLocksLoseNothing) {
  share_through_faults_on_postgres(kEvents, kRowClaims);
}

}  // namespace
}  // namespace outbox::counted
