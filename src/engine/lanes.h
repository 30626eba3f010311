// The lanes that keep the order within an aggregate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/job.h"
#include "outbox/clock.h"
#include "outbox/spi/poller.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// What is known of a lane besides its jobs.
struct LaneState {
  LaneKey key = kNoLane;
  int shard = 0;

  bool busy = false;       // stands in line, or its first event is running
  bool frozen = false;     // the head's update is on its way
  bool held = false;       // rows of it are held in the store, or on their way
  bool blocked = false;    // a DEAD event stands first; see Lanes::block()
  bool rechecked = false;  // one stood first when it was last read
  bool failing = false;    // its head failed, and has not been delivered since
  std::size_t holds_pending = 0;
  std::size_t read_back = 0;  // rows read back after a hold and not yet marked

  Clock::Steady due{};  // the held rows are not to be read before,
  Seq open_after = 0;   // nor before the shard has been read up to here

  std::optional<Clock::Steady> listed{};  // under which time in Lanes::readable_
  std::uint64_t turn = 0;                 // while it is blocked: its place in Lanes::blocked_
};

// One lane: what is known of the events of one aggregate. (Aggregates whose
// 63-bit keys collide share a lane: they wait for one another and stay in
// order.)
struct Lane : LaneState {
  std::deque<Job> jobs{};
};

// All lanes, and which of them want their rows back that were held.
//
// Invariants, for every lane:
//   1. Rows enter it in the order in which they may be delivered, and only the
//      first may run.
//   2. While it is frozen nothing of it runs. DONE does not freeze a lane: the
//      next event follows at once.
//   3. While it has held rows, a row that the reader meets is held too,
//      never past them. They are read back only when the lane is empty, not
//      frozen, and every `hold` update has been acknowledged.
//   4. Rows that were held under another kind of order, before a restart,
//      come first: while the only lane of a total order is there, everything
//      goes through it; and the only lane waits until all others are gone.
//   5. The update of a failing head is submitted before the `hold` updates of its
//      followers, and updates land in the order of their submission; so a crash
//      cannot leave followers held without the head that they wait for.
//
// Not thread-safe: guarded by the WorkQueue.
class Lanes {
 public:
  Lane& at(LaneKey key, int shard);
  Lane* find(LaneKey key);
  const Lane* find(LaneKey key) const;
  std::vector<Lane*> of_shard(int shard);

  // Invariant 4.
  LaneKey lane_for(LaneKey key) const { return lanes_.contains(kOnlyLane) ? kOnlyLane : key; }
  bool behind_others(const Lane& lane) const { return lane.key == kOnlyLane && lanes_.size() > 1; }

  // To be called after every change to a lane: lists it if it wants its rows
  // back, and forgets it if it is of no use any more. True if its first event
  // may now stand in line.
  [[nodiscard]] bool settle(Lane& lane);

  void restore(const HeldLane& held, Clock::Steady now);

  // The next lane whose held rows should be read, given how far each shard
  // has been read; null if none.
  Lane* next_readable(std::span<const Seq> read_through, Clock::Steady now);
  std::optional<Clock::Steady> next_due() const;

  // A DEAD event stands first in it: nothing of it is read until an operator has
  // acted. unblock() has one such lane looked at again (null: it is none), and
  // recheck_blocked() up to `n` of them, in turns.
  void block(Lane& lane);
  void unblock(Lane* lane);
  void recheck_blocked(std::size_t n);
  bool any_blocked() const { return !blocked_.empty(); }

  // Forget lanes, with all that is queued in them.
  std::vector<Job> clear();
  void forget_shard(int shard);

  // How many jobs are in lanes that are frozen or one of these.
  std::size_t jobs_that_wait(const std::set<LaneKey>& waiting) const;

  // Whether no lane has anything of an event that is in flight.
  bool at_rest() const;

  std::size_t size() const { return lanes_.size(); }

 private:
  using Map = std::unordered_map<LaneKey, Lane>;

  void unlist(Lane& lane);
  void take_from_blocked(Lane& lane);
  void forget(LaneKey key);

  Map lanes_;

  // Lanes come and go with every event of an aggregate that has no other: the
  // memory of those that went serves those that come.
  std::vector<Map::node_type> spare_;
  std::set<std::pair<Clock::Steady, LaneKey>> readable_;
  std::map<std::uint64_t, LaneKey> blocked_;  // by turn
  std::uint64_t last_turn_ = 0;
};

}  // namespace outbox::internal
