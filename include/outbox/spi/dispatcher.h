// Workers, queues and lanes: brings events to their listeners and their updates
// back to the store.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/clock.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/log.h"
#include "outbox/metrics.h"
#include "outbox/retry.h"
#include "outbox/spi/poller.h"
#include "outbox/spi/store.h"

namespace outbox {

// Knows which events are being worked on, so that none is taken twice.
//
// Implementations must be thread-safe.
class OUTBOX_EXPORT InFlightTracker {
 public:
  virtual ~InFlightTracker() = default;

  // False if the event is in flight already.
  virtual bool try_acquire(std::string_view event_id) = 0;
  virtual void release(std::string_view event_id) = 0;
};

// A tracker that forgets an event after `time_to_live`, for those who feed a
// dispatcher by their own means and fear stuck entries more than duplicates.
OUTBOX_EXPORT std::shared_ptr<InFlightTracker> timed_tracker(std::chrono::milliseconds time_to_live,
                                                             const Clock& clock = host_clock());

// What becomes of the later events of an aggregate when one is DEAD.
enum class OnDead {
  skip,   // they go on
  block,  // they wait until an operator has replayed or discarded it
  park,   // they become DEAD too, to be replayed in order (of a long lane, the
          // first `cold_capacity / 4`; the others wait aside and follow those)
};

// What becomes of an event that has no listener in this instance.
enum class OnUnroutable {
  dead,  // it is DEAD at once, with the reason

  // It stays pending, and so do the later events of its aggregate, until an instance
  // delivers that has a listener for it. No attempt is spent. For rolling deployments:
  // instances of the old release leave events of a new type to those of the new one. It
  // is looked at again after 1 to 60 seconds, the longer the older it is.
  wait,
};

struct DispatcherOptions {
  int workers = 4;

  // Bounds, in events and (for both queues together) in bytes of payload.
  std::size_t hot_capacity = 1000;
  std::size_t cold_capacity = 1000;
  std::size_t capacity_bytes = std::size_t{64} * 1024 * 1024;

  Ordering ordering = Ordering::per_aggregate;
  OnDead on_dead = OnDead::skip;
  OnUnroutable on_unroutable = OnUnroutable::dead;

  std::shared_ptr<const RetryPolicy> retry{};  // empty: ExponentialBackoff{}
  int max_attempts = 10;

  // In order: the first one wraps all others.
  std::vector<std::shared_ptr<Interceptor>> interceptors{};

  // Called after an event has been marked DEAD, with the reason. What it throws
  // is logged.
  std::function<void(const Event&, std::string_view error)> on_dead_event{};

  // Called before an event is marked DEAD, with the reason, e.g. to write it to
  // a place of its own. If it throws, the event is not DEAD yet: its last
  // attempt is repeated later. (Events that are parked behind a dead one are
  // not dead letters.)
  std::function<void(const Event&, std::string_view error)> dead_letter{};

  // close() lets queued events finish for this long. Calls that are running
  // are waited for in any case: a thread cannot be cut off in C++; their
  // Delivery::stop is requested.
  std::chrono::milliseconds drain_timeout{5'000};

  // A call that takes longer hangs: it is reported, once, and nobody waits for it any
  // more but its own worker and lane. If its shard is to be given to another instance,
  // that one gets the event postponed by the time the call has taken so far, and then
  // delivers it again. So choose it longer than any call may take.
  std::chrono::milliseconds hung_after{30'000};

  // If no update has been acknowledged for this long although some wait, or if every worker hangs
  // and events wait, give up what is owned, so that others may deliver it, and register anew.
  // Doubled each time until a update lands.
  std::chrono::milliseconds stalled_after{60'000};

  // How long a listener that is unavailable is left alone: doubled from the
  // first to the second value while it stays away.
  std::chrono::milliseconds pause{200};
  std::chrono::milliseconds max_pause{30'000};

  // With row claims: how long a claim lasts. An event is not delivered on a
  // claim that may have expired.
  std::optional<std::chrono::milliseconds> lock_timeout{};

  std::shared_ptr<InFlightTracker> tracker{};  // empty: exact, no time-to-live
  Logger log{};                                // empty: standard_error_log()
  std::shared_ptr<Metrics> metrics{};
  const Clock* clock = nullptr;  // null: host_clock()
};

// Delivers what it is given. The facade in outbox.h wires one with a writer
// and a reader; use it alone to feed it by other means, e.g. from a CDC stream.
//
// Thread-safe. After fork() the child must not use it.
class OUTBOX_EXPORT Dispatcher {
 public:
  // Throws MisuseError for invalid options, and without any listener.
  Dispatcher(std::shared_ptr<Instance> instance, Listeners listeners,
             DispatcherOptions options = {});
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Throws MisuseError after close().
  void start();

  // Hands an event over. False if the queue is full or closing, or this
  // instance does not own the event's shard (before start() it owns none); the
  // event is then still in the store. An event in flight already is accepted and
  // dropped. Where both queues have work, two hot events are taken for one
  // cold one. With Ordering::per_aggregate both keep the order of the calls.
  bool enqueue_hot(Row row);
  bool enqueue_cold(Row row);

  std::size_t hot_room() const;
  std::size_t cold_room() const;
  std::size_t in_flight() const;

  // For a Poller: rows go to the cold queue. Ask for it before start(): the
  // poller then keeps the lease, which the dispatcher does by itself otherwise.
  std::shared_ptr<PollHandler> poll_handler();

  // Throws MisuseError, and changes nothing, in a listener or another callback of its
  // own, which it would wait for. With a Poller, close the dispatcher first: the poller
  // gives back what both own.
  //
  // Stops accepting, works off what is queued within drain_timeout, flushes
  // the updates and returns. What was not started is pending in the store as
  // before. Idempotent; fine without start().
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
