// What a poller hands the rows to that it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/lanes.h"
#include "engine/lease_keeper.h"
#include "outbox/spi/poller.h"

namespace outbox::internal {

// The engine's side of a poller. A PollHandler of the user's is one that keeps no order and owns
// nothing: as the defaults are here.
//
// One thread at a time calls these, but for on_lease(), stalled(), able(), tick(), drained(),
// next_lane_due() and any_blocked(), which any thread may.
class Intake : public PollHandler, public LeaseHolder {
 public:
  // Of those in flight, how many will come to an end without waiting for a call that hangs, or
  // for an update that the store refuses.
  virtual std::size_t active() { return in_flight(); }

  // Whether this event is in flight, and will be until read_ends(). Such a row may be handed to
  // it without its payload. False if it cannot tell.
  virtual bool has(std::string_view /*event_id*/) { return false; }

  // Takes rows of which one may have killed the process that owned them before: raises their
  // `crashes` in the store, then delivers them. Called only while nothing is active. Returns how
  // many of them were in flight already.
  virtual std::size_t deliver_isolated(std::vector<Row> rows) {
    for (Row& row : rows) {
      if (!handle(std::move(row))) break;
    }
    return 0;
  }

  // From now on, or no longer, candidates are delivered, and nothing else may be beside them.
  virtual void isolate(bool /*on*/) {}

  // A read is about to start, in the lease of that epoch / its rows have all been handled. A row
  // whose update was acknowledged in between may still be among them.
  virtual void read_begins(std::int64_t /*epoch*/) {}
  virtual void read_ends() {}

  // Rows that it did not take because their events were in flight, and that are to be read again
  // after all.
  virtual std::vector<RowRef> take_left_behind() { return {}; }

  // A read is wanted. False: nobody here would read, the poller's own thread has to.
  virtual bool request_poll() { return false; }

  // Whether nothing of this shard is in flight, so that it can be released. Asked again and
  // again: what has not begun may be dropped, what hangs may be handed over.
  virtual bool drained(int /*shard*/) { return true; }

  // --- The lease ---

  void on_lease(const Lease& /*lease*/, Clock::Steady /*valid_until*/) override {}
  std::string stalled() override { return {}; }
  bool able() override { return true; }
  std::optional<Clock::Steady> tick() override { return std::nullopt; }

  // --- Lanes ---

  // A lane that was held before this instance owned the shard.
  virtual void restore(const HeldLane& /*lane*/) {}

  // The next lane whose rows, held earlier, should be read now; its shard has been read up to the
  // given seq. A zero key: none.
  virtual LaneRead next_lane(std::span<const Seq> /*read_through*/) { return {}; }

  // When next_lane() will have one.
  virtual std::optional<Clock::Steady> next_lane_due() { return std::nullopt; }

  // Whether a lane waits behind a DEAD event; if so, unblocked() is told of those that an operator
  // has freed, and now and then recheck_blocked() of the chance that one was freed by other means.
  virtual bool any_blocked() { return false; }
  virtual void unblocked(std::span<const LaneRef> /*lanes*/) {}
  virtual void recheck_blocked() {}

  // The rows of that lane; candidates as above or not.
  virtual void load_lane(const LaneRead& /*lane*/, Rows /*rows*/, bool /*candidate*/) {}
};

}  // namespace outbox::internal
