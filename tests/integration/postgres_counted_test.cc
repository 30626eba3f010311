// The quick version; see postgres_counted_long_test.cc.
#include "postgres_counted.h"

#include <gtest/gtest.h>

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 5'000;

class PostgresCounted : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_POSTGRES(); }
};

TEST_F(PostgresCounted, FourInstancesShareTheEventsInOrder) { share_on_postgres(kEvents); }
TEST_F(PostgresCounted, FourInstancesClaimEachEventOnce) {
  share_on_postgres(kEvents, {.ordering = Ordering::none, .row_claims = true});
}

}  // namespace
}  // namespace outbox::counted
