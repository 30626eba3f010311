#include <gtest/gtest.h>

#include "counted.h"
#include "fleet.h"
#include "outbox/memory.h"
#include "support/services.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 100'000;

TEST(CountedLong, KeepsTheOrderOfTwoProcesses) { keep_order_on_sqlite(kEvents); }
TEST(CountedLong, DeliversEachOnceOnTheMemoryStore) { deliver_each_once(memory::open(), kEvents); }
TEST(CountedLong, DeliversEachOnceOnSqlite) { deliver_each_once(temporary_sqlite(), kEvents); }

constexpr std::size_t kSharedEvents = 50'000;
const FleetOptions kWithoutOrder{.ordering = Ordering::none};
const FleetOptions kRowClaims{.ordering = Ordering::none, .row_claims = true};

class SharingLong : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE(GetParam().server); }
};

TEST_P(SharingLong, FourInstancesShareTheEventsInOrder) { share(GetParam(), kSharedEvents); }
TEST_P(SharingLong, FourInstancesWithoutOrderDeliverEachOnce) {
  share(GetParam(), kSharedEvents, kWithoutOrder);
}
TEST_P(SharingLong, FourInstancesClaimEachEventOnce) {
  share(GetParam(), kSharedEvents, kRowClaims);
}
TEST_P(SharingLong, DeathsAndTakeOversLoseNothingAndKeepTheOrder) {
  share_through_faults(GetParam(), kSharedEvents);
}
TEST_P(SharingLong, DeathsAndTakeOversWithoutOrderLoseNothing) {
  share_through_faults(GetParam(), kSharedEvents, kWithoutOrder);
}
TEST_P(SharingLong, DeathsAndExpiredLocksLoseNothing) {
  share_through_faults(GetParam(), kSharedEvents, kRowClaims);
}

OUTBOX_ON_EVERY_SERVER(SharingLong);

}  // namespace
}  // namespace outbox::counted
