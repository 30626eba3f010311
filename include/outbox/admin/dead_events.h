// What to do about events that were given up: inspect, replay or discard them.
//
//   outbox::DeadEvents dead{store};
//   for (const auto& group : dead.groups()) {
//     std::cout << group.count << " x " << group.error << '\n';
//   }
//   dead.replay_all({.type = "OrderPlaced", .error_contains = "timeout"}, {.rate = 50});
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/export.h"
#include "outbox/log.h"

namespace outbox {

// How to process many events.
struct BulkOptions {
  // Rows that one statement changes; fewer if the rate requires it.
  std::size_t batch = 100;

  // Events per second at most, so that the receivers can keep up; 0: as fast as
  // possible.
  double rate = 0;

  // At most this many events; 0: all that match.
  std::int64_t limit = 0;

  // Called after each batch with the number of events changed so far; return false
  // to stop there.
  std::function<bool(std::int64_t changed)> progress{};

  // Ends the operation after the current batch, and any wait immediately.
  std::stop_token stop{};
};

// Inspects, replays and discards dead events. A replayed event is NEW, with
// all its attempts, and is delivered as soon as the engine that owns it
// finds it; the events of one aggregate keep their order.
//
// Bulk operations go over the table once, in batches, each of which is applied
// completely or not at all: they end, even if replayed events die again at once. An
// error of the store reaches the caller; changes made until then stay,
// and repeating the call continues from there. Thread-safe.
class OUTBOX_EXPORT DeadEvents {
 public:
  // Throws MisuseError if the store is null.
  explicit DeadEvents(std::shared_ptr<Store> store);

  // Both consider DEAD events only, whatever filter.status says. query() returns a page of
  // them, in the order of their rows; the next one begins after `back().row.ref.seq`.
  std::vector<EventRecord> query(EventFilter filter = {}, std::size_t limit = 100, Seq after = 0);
  std::int64_t count(EventFilter filter = {});

  // Grouped by the reason they died, the largest groups first.
  std::vector<DeadGroup> groups(const EventFilter& filter = {}, std::size_t limit = 50);

  // False if there is no such event, or it is not DEAD.
  bool replay(std::string_view event_id);
  bool discard(std::string_view event_id);

  // How many were changed. Throws MisuseError for invalid options.
  std::int64_t replay_all(EventFilter filter, const BulkOptions& options = {});
  std::int64_t discard_all(EventFilter filter, const BulkOptions& options = {});

  // Delivers DONE events again, e.g. after a receiver lost its data. Throws
  // MisuseError unless the filter names an aggregate id or a bound of a time
  // range, so that nobody replays the whole history by mistake.
  std::int64_t replay_done(EventFilter filter, const BulkOptions& options = {});

 private:
  const std::shared_ptr<Store> store_;
};

// Replays DEAD events at regular intervals.
struct ReplaySchedule {
  // From the end of one round to the beginning of the next, give or take a
  // tenth, so that many processes do not all run at once.
  std::chrono::milliseconds interval{std::chrono::hours{1}};

  // Select errors that go away with time; events that nobody can deliver die again in
  // every round.
  EventFilter filter{};

  // Only events that have been DEAD for this long.
  std::chrono::milliseconds min_age{std::chrono::minutes{10}};

  BulkOptions bulk{};

  Logger log{};  // empty: standard_error_log()
};

// Runs a schedule. A failed round is logged, and does not prevent the next one. Thread-safe.
class OUTBOX_EXPORT ScheduledReplay {
 public:
  // Throws MisuseError if the store is null or the schedule is invalid.
  ScheduledReplay(std::shared_ptr<Store> store, ReplaySchedule schedule);
  ~ScheduledReplay();  // closes
  ScheduledReplay(const ScheduledReplay&) = delete;
  ScheduledReplay& operator=(const ScheduledReplay&) = delete;

  // Starts a thread that runs a round immediately and then at each interval. Throws
  // MisuseError when called twice or after close().
  void start();

  // Ends the current round after its batch, and waits for that. Idempotent,
  // and fine without start(). Throws MisuseError in a callback of its own.
  void close();

  // Runs one round in this thread and returns how many events it replayed. Errors reach
  // the caller.
  std::int64_t run_once();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
