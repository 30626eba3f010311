// The quick version; see counted_long_test.cc.
#include "counted.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "fleet.h"
#include "outbox/memory.h"
#include "support/services.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 5'000;

TEST(Counted, KeepsTheOrderOfTwoProcesses) { keep_order_on_sqlite(kEvents); }
TEST(Counted, DeliversEachOnceOnTheMemoryStore) { deliver_each_once(memory::open(), kEvents); }
TEST(Counted, DeliversEachOnceOnSqlite) { deliver_each_once(temporary_sqlite(), kEvents); }

class Sharing : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE(GetParam().server); }
};

TEST_P(Sharing, FourInstancesShareTheEventsInOrder) { share(GetParam(), kEvents); }
TEST_P(Sharing, FourInstancesClaimEachEventOnce) {
  share(GetParam(), kEvents, {.ordering = Ordering::none, .row_claims = true});
}

// Its lease would keep everybody else waiting for an hour.
TEST_P(Sharing, WhoIsKilledIsReplacedAtOnceByAnotherProcessOnItsHost) {
  using namespace std::chrono_literals;
  Fleet fleet(GetParam(), {.lease = 1h});
  Fleet::Member& killed = fleet.start_instance();
  fleet.start_writer(kEvents);
  fleet.wait_for_arrivals(kEvents / 10);
  killed.signal(SIGKILL);
  ASSERT_EQ(killed.wait(20s), harness::kKilled);
  const auto begin = std::chrono::steady_clock::now();
  fleet.start_instance();
  fleet.wait_until_delivered();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  const harness::Verdict verdict = fleet.finish(kEvents, 1);
  EXPECT_TRUE(verdict.clean()) << verdict;
}

OUTBOX_ON_EVERY_SERVER(Sharing);

}  // namespace
}  // namespace outbox::counted
