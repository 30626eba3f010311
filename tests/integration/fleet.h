// Many instances on one server, each in a process of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "database.h"
#include "harness/process.h"
#include "harness/receiver.h"
#include "harness/verdict.h"
#include "observer.h"
#include "outbox/outbox.h"
#include "support/temporary_directory.h"

namespace outbox::counted {

struct FleetOptions {
  // With Mode::ordered all writers take turns, and write of all aggregates: the order that is
  // judged is that of all events.
  Mode mode = Mode::multi_node;
  Ordering ordering = Ordering::per_aggregate;
  bool row_claims = false;

  // So short that a take-over can be waited for, so long that a busy machine does
  // not cause one.
  std::chrono::milliseconds lease{15'000};

  // With row claims; longer than anybody waits here.
  std::chrono::milliseconds lock_timeout{600'000};
};

// Instances and writers, on a database of their own, and what they delivered. Every
// writer takes the next numbers of an aggregate, and with them its lock, before it
// writes; the numbers tell the order.
//
// The test's own process must have no threads, because the others are its copies.
// Used by one thread.
class Fleet {
 public:
  using Member = harness::Process;

  // How many events an instance holds at most.
  static constexpr std::size_t kCapacity = 128;

  explicit Fleet(const chaos::TemporaryDatabase& database, const FleetOptions& options = {});
  ~Fleet();  // kills what still runs
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Delivers until it is told to end; writes so many events itself meanwhile.
  Member& start_instance(std::size_t events = 0);

  // Write so many events and end: by the library, and by SQL that knows nothing
  // of it.
  void start_writer(std::size_t events);
  void start_plain_writer(std::size_t events);

  // All wait for minutes if need be, and throw std::runtime_error then.
  void wait_for_arrivals(std::size_t count);
  void wait_for_members(std::size_t count);           // registered instances
  void wait_until_forgotten(const Member& instance);  // its lease, and the locks of the dead
  void wait_until_delivered();

  // How often an instance that lives on had lost its lease, and registered again.
  std::size_t lost_leases() { return observer_.lost_leases(); }

  // Waits until so many events have been written and delivered, ends the instances
  // in good order, and judges: what an instance held may come again if it died,
  // which happened so many times, or if it lost its lease.
  harness::Verdict finish(std::size_t events, std::size_t deaths = 0);

 private:
  int deliver(std::size_t events);
  int write(std::size_t events);
  int write_by_sql(std::size_t events);
  bool one_order() const { return options_.mode == Mode::ordered; }
  bool has_member(const Member& instance);
  void wait(const std::string& what, const std::function<bool()>& condition);
  Options options() const;

  // Constant after construction.
  const FleetOptions options_;
  const test::TemporaryDirectory directory_;
  const std::unique_ptr<chaos::Database> database_;

  harness::Ledger ledger_;
  chaos::Observer observer_;
  std::vector<std::unique_ptr<Member>> instances_;
  std::vector<std::unique_ptr<Member>> writers_;
};

// Four instances in processes of their own; writers in two of those, in others, and
// by plain SQL. Nothing is lost or repeated, nor out of order where there is one.
void share(const chaos::TemporaryDatabase& database, std::size_t events,
           const FleetOptions& options = {});

// The same while one instance is killed, one is stopped beyond its lease and its
// locks and continued, and one joins: what these held may be repeated.
void share_through_faults(const chaos::TemporaryDatabase& database, std::size_t events,
                          FleetOptions options = {});

}  // namespace outbox::counted
