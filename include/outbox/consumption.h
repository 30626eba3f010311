// Consumers that do a thing once where its effect is outside any database: a mail, a
// payment by HTTP, a search index.
//
//   auto tracker = outbox::redis::tracker("redis://127.0.0.1:6379");     // redis.h
//   on.add("Order", "OrderPlaced", outbox::idempotent(tracker, "billing", bill));
//
// Effect and record cannot be made one here. What a tracker gives: while one consumer
// is at an event no other one begins, and once it is done nobody does it again. What it
// cannot: a process that dies after the effect and before the record is repeated after
// the lease. Where that must not be, use the inbox (inbox.h), or pass the event's id on to a
// receiver that knows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/clock.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"

namespace outbox {

struct TrackerOptions {
  // A consumer that has not ended after so long is taken for dead. Longer than the
  // slowest effect.
  std::chrono::milliseconds lease{std::chrono::minutes{5}};

  // How long it is remembered that an event is done.
  std::chrono::seconds retention{std::chrono::hours{14 * 24}};
};

// Remembers which group of consumers is at, or has had, which event. Give each handler of
// a fan-out a group of its own. Implementations are thread-safe.
class OUTBOX_EXPORT ConsumptionTracker {
 public:
  virtual ~ConsumptionTracker() = default;

  enum class State : std::uint8_t {
    started,      // this caller is at it now
    in_progress,  // somebody else is
    done,         // somebody was
  };
  struct Start {
    State state = State::started;

    // started: grows each time the event is begun anew, so that a receiver that
    // remembers the highest can refuse a consumer that was taken for dead.
    std::int64_t fence = 0;

    // in progress: until the other one is taken for dead.
    std::chrono::milliseconds expires_in{0};
  };

  // All three throw UnavailableError while the tracker's server is away.
  virtual Start start(std::string_view group, std::string_view event_id) = 0;

  // The event is done, or was not and may be begun again at once. False, and nothing
  // changes, if another one has begun since: the caller was taken for dead.
  virtual bool finish(std::string_view group, std::string_view event_id, std::int64_t fence) = 0;
  virtual bool abandon(std::string_view group, std::string_view event_id, std::int64_t fence) = 0;
};

// For tests, and for consumers in one process: forgets everything with it.
OUTBOX_EXPORT std::shared_ptr<ConsumptionTracker> memory_tracker(TrackerOptions options = {},
                                                                 const Clock& clock = host_clock());

// Wraps a listener: skips events that the group has had, and comes back later for those
// that another one is at. An event is done when the inner listener says so; when it
// throws or wants it again, it may be begun again.
OUTBOX_EXPORT std::shared_ptr<Listener> idempotent_listener(
    std::shared_ptr<ConsumptionTracker> tracker, std::string group,
    std::shared_ptr<Listener> inner);

// The same for anything that listener() takes.
template <class F>
std::shared_ptr<Listener> idempotent(std::shared_ptr<ConsumptionTracker> tracker, std::string group,
                                     F function) {
  return idempotent_listener(std::move(tracker), std::move(group), listener(std::move(function)));
}

}  // namespace outbox
