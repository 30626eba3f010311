// What to do about events that were given up: look at them, send them once
// more, or throw them away.
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

// How to go about many events.
struct BulkOptions {
  // Rows that one statement changes; fewer if the rate asks for it.
  std::size_t batch = 100;

  // Events a second at most, so that the receivers can keep up; 0: as fast as
  // it goes.
  double rate = 0;

  // At most so many events; 0: all that match.
  std::int64_t limit = 0;

  // Called after each batch with the number of events changed so far; false
  // ends it there.
  std::function<bool(std::int64_t changed)> progress{};

  // Ends it after the batch under way, and any wait at once.
  std::stop_token stop{};
};

// Looks at dead events, replays and discards them. A replayed event is NEW, with
// all its attempts before it, and is delivered as soon as an engine that owns it
// finds it; the events of one aggregate in their old order.
//
// Bulk operations go over the table once, in batches, each of which is complete
// or did not happen: they end, even if what was replayed dies again at once. An
// error of the store reaches the caller; what was changed until then stays so,
// and repeating the call goes on from there. Thread-safe.
class OUTBOX_EXPORT DeadEvents {
 public:
  // Throws MisuseError if the store is null.
  explicit DeadEvents(std::shared_ptr<Store> store);

  // These mean DEAD events, whatever filter.status says. A page of them, by the
  // order of their rows; the next one begins after `back().row.ref.seq`.
  std::vector<EventRecord> query(EventFilter filter = {}, std::size_t limit = 100, Seq after = 0);
  std::int64_t count(EventFilter filter = {});

  // What they died of, the most frequent first.
  std::vector<DeadGroup> groups(const EventFilter& filter = {}, std::size_t limit = 50);

  // False if there is no such event, or it is not DEAD.
  bool replay(std::string_view event_id);
  bool discard(std::string_view event_id);

  // How many were changed. Throws MisuseError for invalid options.
  std::int64_t replay_all(EventFilter filter, const BulkOptions& options = {});
  std::int64_t discard_all(EventFilter filter, const BulkOptions& options = {});

  // Delivers DONE events once more, e.g. after a receiver lost its data. Throws
  // MisuseError unless the filter names an aggregate id or a bound of a time
  // range: nobody wants all that ever happened again by mistake.
  std::int64_t replay_done(EventFilter filter, const BulkOptions& options = {});

 private:
  const std::shared_ptr<Store> store_;
};

// Replays DEAD events again and again.
struct ReplaySchedule {
  // From the end of one round to the beginning of the next, give or take a
  // tenth, so that many processes do not all come at once.
  std::chrono::milliseconds interval{std::chrono::hours{1}};

  // Name those that time can heal; events that nobody can deliver die again in
  // every round.
  EventFilter filter{};

  // Only what has been DEAD for so long.
  std::chrono::milliseconds min_age{std::chrono::minutes{10}};

  BulkOptions bulk{};

  Logger log{};  // empty: standard_error_log()
};

// Carries a schedule out. A round that fails is logged; the next one comes all
// the same. Thread-safe.
class OUTBOX_EXPORT ScheduledReplay {
 public:
  // Throws MisuseError if the store is null or the schedule is invalid.
  ScheduledReplay(std::shared_ptr<Store> store, ReplaySchedule schedule);
  ~ScheduledReplay();  // closes
  ScheduledReplay(const ScheduledReplay&) = delete;
  ScheduledReplay& operator=(const ScheduledReplay&) = delete;

  // Begins with a round at once, on a thread of its own. Throws MisuseError when
  // called twice or after close().
  void start();

  // Ends the round under way after its batch, and waits for that. Idempotent,
  // and fine without start(). Throws MisuseError in a callback of its own.
  void close();

  // One round, here and now; how many events it replayed. Errors reach the
  // caller.
  std::int64_t run_once();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
