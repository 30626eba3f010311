// An event on its way through the engine.
#pragma once

#include <cstdint>

#include "engine/breaker.h"
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

  // The epoch it was read in; what was read in an earlier one is not marked.
  std::int64_t epoch = 0;

  // With row claims: the claim may be somebody else's after this.
  Clock::Steady expires = Clock::Steady::max();
};

// The epoch of a job whose shard was given up while its call went on.
inline constexpr std::int64_t kHandedOver = -1;

// The lane of all events when there is one total order.
inline constexpr LaneKey kOnlyLane = 1;

// A update on its way to the store, with the job that it is about.
struct Completion {
  // What it means to the job's lane: nothing, because the lane did not wait
  // for it; that its head, or a row behind the head, is where it should be;
  // that a row has come which WorkQueue::reserve() announced; or that a call that
  // hangs may be left behind with its shard, and is still running.
  enum class Ack : std::uint8_t { done, head, hold, expected, hand_over };

  Job job;
  StatusUpdate update{};
  Ack ack = Ack::done;
  Clock::Steady due{};        // of what waits now
  bool stale = false;         // it changed nothing: the row is no longer ours
  bool failed_alone = false;  // before others acked; see Completer
  bool given_up = false;      // see Completer::give_up()
};

}  // namespace outbox::internal
