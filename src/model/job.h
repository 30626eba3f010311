// An event on its way through the engine.
#pragma once

#include <cstdint>

#include "model/breaker.h"
#include "outbox/clock.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

struct Job {
  Row row;
  LaneKey lane = kNoLane;
  Breaker* route = nullptr;  // null: nobody listens
  bool hot = false;

  // Its `crashes` were raised before the delivery.
  bool candidate = false;

  // Handlers of a fan-out have it, and its row does not say so yet.
  bool unsaved_progress = false;

  // The epoch it was read in; what was read in an earlier one is not updated.
  std::int64_t epoch = 0;

  // With row claims: the claim may be somebody else's after this.
  Clock::Steady expires = Clock::Steady::max();
};

// The epoch of a job whose shard was given up while its call went on.
inline constexpr std::int64_t kHandedOver = -1;

// The lane of all events when there is one total order. It lies in all shards, so each has a key of
// its own for its part: an engine that keeps the order per aggregate meets them one by one.
inline constexpr LaneKey kOnlyLane = 1;
inline LaneKey only_lane(int shard) { return kOnlyLane + shard; }

// What becomes of an event. Decided once, after its call or instead of one; from there the worker,
// the queue and the completer carry it to the store and back to the event's lane.
//
// Invariants:
//   1. Only the queue changes a decision, and only to `drop` or `hold`: the lease may have ended
//      meanwhile, or an earlier event of the lane failed in the same batch.
//   2. `again` and `drop` have no update in the store; all others have exactly one.
struct Decision {
  enum class Kind : std::uint8_t {
    done,   // the lane has gone on already, or never waited for it
    wait,   // retry or deferred: the lane waits for its head
    skip,   // DEAD: the lane goes on once that has been acknowledged
    block,  // DEAD: the lane is blocked
    again,  // the listener is unavailable: the same job once more, later
    hold,   // behind others of its lane: to be held, or DEAD as well
    drop,   // no longer ours: see WorkQueue::reclaim()

    // Without a call before it.
    begin,      // the update brings in what WorkQueue::reserve() has announced
    hand_over,  // its call hangs, and may be left behind with its shard
  };

  Kind kind = Kind::done;
  StatusUpdate update{};
  bool unavailable = false;  // the listener was
};

// A job that is over, and then its update on the way to the store.
struct Completion {
  Job job;
  Decision decision{};
  Clock::Steady due{};        // of what waits now
  bool stale = false;         // it changed nothing: the row is no longer ours
  bool failed_alone = false;  // before others acked; see Completer
  bool given_up = false;      // see Completer::give_up()
};

}  // namespace outbox::internal
