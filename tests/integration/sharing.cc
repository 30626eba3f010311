#include "sharing.h"

#include <gtest/gtest.h>

#include <csignal>

namespace outbox::counted {

using namespace std::chrono_literals;

void share(const chaos::TemporaryDatabase& database, std::size_t events,
           const FleetOptions& options) {
  ASSERT_EQ(events % 5, 0u);
  Fleet fleet(database, options);
  for (int n = 0; n < 2; ++n) fleet.start_instance(events / 5);
  for (int n = 0; n < 2; ++n) fleet.start_instance();
  fleet.start_writer(events / 5);
  for (int n = 0; n < 2; ++n) fleet.start_plain_writer(events / 5);
  const harness::Verdict verdict = fleet.finish(events);
  EXPECT_TRUE(verdict.clean()) << verdict;
  EXPECT_EQ(fleet.lost_leases(), 0u) << "on a machine this busy nothing can be told";
}

void share_through_faults(const chaos::TemporaryDatabase& database, std::size_t events,
                          FleetOptions options) {
  ASSERT_EQ(events % 5, 0u);
  options.lease = 5s;
  options.lock_timeout = 5s;
  Fleet fleet(database, options);
  Fleet::Member& killed = fleet.start_instance();
  Fleet::Member& stopped = fleet.start_instance();
  for (int n = 0; n < 2; ++n) fleet.start_instance(events / 5);
  fleet.wait_for_members(4);
  for (int n = 0; n < 2; ++n) fleet.start_writer(events / 5);
  fleet.start_plain_writer(events / 5);
  fleet.wait_for_arrivals(events / 10);
  killed.signal(SIGKILL);
  fleet.wait_for_arrivals(events / 5);
  stopped.signal(SIGSTOP);
  fleet.start_instance();
  fleet.wait_until_forgotten(stopped);
  stopped.signal(SIGCONT);
  fleet.wait_for_members(4);
  const harness::Verdict verdict = fleet.finish(events, 1);
  EXPECT_TRUE(verdict.clean()) << verdict;
  EXPECT_GE(fleet.lost_leases(), 1u);
}

}  // namespace outbox::counted
