// The quick version; see sharing_long_test.cc.
#include "sharing.h"

#include <gtest/gtest.h>

#include "support/services.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 5'000;

class Sharing : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE(GetParam().server); }
};

TEST_P(Sharing, FourInstancesShareTheEventsInOrder) { share(GetParam(), kEvents); }
TEST_P(Sharing, FourInstancesClaimEachEventOnce) {
  share(GetParam(), kEvents, {.ordering = Ordering::none, .row_claims = true});
}

#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, Sharing, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, Sharing, ::testing::Values(chaos::kMysql));
#endif

}  // namespace
}  // namespace outbox::counted
