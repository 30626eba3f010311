// Mode::ordered on servers: writers that take turns, in several processes, and instances that die.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "fleet.h"
#include "support/services.h"

namespace outbox::counted {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kEvents = 3'000;

class OneOrderOfAllTest : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE(GetParam().server); }
};

TEST_P(OneOrderOfAllTest, IsThatOfWritersWhoTakeTurns) {
  Fleet fleet(GetParam(), {.mode = Mode::ordered});
  for (int n = 0; n < 2; ++n) fleet.start_instance(kEvents / 5);
  fleet.start_writer(kEvents / 5);
  for (int n = 0; n < 2; ++n) fleet.start_plain_writer(kEvents / 5);
  const harness::Verdict verdict = fleet.finish(kEvents);
  EXPECT_TRUE(verdict.clean()) << verdict;
}

TEST_P(OneOrderOfAllTest, IsKeptWhenTheOwnerIsKilledAndTheNextOneLosesItsLease) {
  Fleet fleet(GetParam(), {.mode = Mode::ordered, .lease = 3s});
  Fleet::Member& killed = fleet.start_instance();
  fleet.wait_for_members(1);
  Fleet::Member& stopped = fleet.start_instance();
  fleet.wait_for_members(2);
  fleet.start_writer(kEvents / 3);
  fleet.start_plain_writer(kEvents / 3);
  fleet.wait_for_arrivals(kEvents / 10);
  killed.signal(SIGKILL);
  fleet.wait_for_arrivals(kEvents / 4);
  fleet.start_instance(kEvents / 3);
  fleet.wait_for_members(2);
  stopped.signal(SIGSTOP);
  fleet.wait_until_forgotten(stopped);
  stopped.signal(SIGCONT);
  const harness::Verdict verdict = fleet.finish(kEvents, 1);
  EXPECT_TRUE(verdict.clean()) << verdict;
}

#ifdef OUTBOX_WITH_POSTGRES
INSTANTIATE_TEST_SUITE_P(Postgres, OneOrderOfAllTest, ::testing::Values(chaos::kPostgres));
#endif
#ifdef OUTBOX_WITH_MYSQL
INSTANTIATE_TEST_SUITE_P(Mysql, OneOrderOfAllTest, ::testing::Values(chaos::kMysql));
#endif

}  // namespace
}  // namespace outbox::counted
