#include <gtest/gtest.h>

#include "sharing.h"
#include "support/services.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 50'000;
const FleetOptions kWithoutOrder{.ordering = Ordering::none};
const FleetOptions kRowClaims{.ordering = Ordering::none, .row_claims = true};

class SharingLong : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE(GetParam().server); }
};

TEST_P(SharingLong, FourInstancesShareTheEventsInOrder) { share(GetParam(), kEvents); }
TEST_P(SharingLong, FourInstancesWithoutOrderDeliverEachOnce) {
  share(GetParam(), kEvents, kWithoutOrder);
}
TEST_P(SharingLong, FourInstancesClaimEachEventOnce) { share(GetParam(), kEvents, kRowClaims); }
TEST_P(SharingLong, DeathsAndTakeOversLoseNothingAndKeepTheOrder) {
  share_through_faults(GetParam(), kEvents);
}
TEST_P(SharingLong, DeathsAndTakeOversWithoutOrderLoseNothing) {
  share_through_faults(GetParam(), kEvents, kWithoutOrder);
}
TEST_P(SharingLong, DeathsAndExpiredLocksLoseNothing) {
  share_through_faults(GetParam(), kEvents, kRowClaims);
}

#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, SharingLong, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, SharingLong, ::testing::Values(chaos::kMysql));
#endif

}  // namespace
}  // namespace outbox::counted
