// Workers, queues and lanes: delivers events to their listeners, and their status
// updates back to the store.
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
#include "outbox/options.h"
#include "outbox/retry.h"
#include "outbox/spi/poller.h"
#include "outbox/spi/store.h"
#include "outbox/telemetry/metrics.h"
#include "outbox/writer.h"

namespace outbox {

// Knows which events are in flight, so that none is taken twice.
//
// Implementations must be thread-safe.
class OUTBOX_EXPORT InFlightTracker {
 public:
  virtual ~InFlightTracker() = default;

  // False if the event is in flight already.
  virtual bool try_acquire(std::string_view event_id) = 0;
  virtual void release(std::string_view event_id) = 0;
};

// A tracker that forgets an event after `time_to_live`, if you feed a dispatcher
// yourself and fear stuck entries more than duplicates.
OUTBOX_EXPORT std::shared_ptr<InFlightTracker> timed_tracker(std::chrono::milliseconds time_to_live,
                                                             const Clock& clock = host_clock());

// Members are as those of the same name in outbox.h.
struct DispatcherOptions {
  int workers = kDefaultWorkers;
  Ordering ordering = Ordering::per_aggregate;
  OnUnroutable on_unroutable = OnUnroutable::dead;

  QueueOptions queue{};
  RetryOptions retry{};
  DeadOptions dead{};
  BreakerOptions breaker{};
  TimeoutOptions timeouts{};

  // In order: the first one wraps all others.
  std::vector<std::shared_ptr<Interceptor>> interceptors{};

  // With row claims: how long a claim lasts. An event whose claim may have expired is
  // not delivered.
  std::optional<std::chrono::milliseconds> lock_timeout{};

  std::shared_ptr<InFlightTracker> tracker{};  // empty: exact, no time-to-live
  Logger log{};                                // empty: standard_error_log()
  std::shared_ptr<Metrics> metrics{};
  const Clock* clock = nullptr;  // null: host_clock()
};

// Delivers the events that it is given. The facade in outbox.h wires one with a writer
// and a poller; use it alone to feed it yourself, e.g. from a CDC stream.
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

  // For a Poller: rows go to the cold queue. Call it before start(): the
  // poller then keeps the lease, which the dispatcher otherwise does itself.
  std::shared_ptr<PollHandler> poll_handler();

  // For a Writer, among WriterOptions::hooks: with Ordering::none its events go straight from
  // memory into the hot queue when their transaction commits, and nobody else takes them from the
  // table. Ordered events, and those that find no room, must be read by a poller:
  // `wake` is called, on the committing thread, when it should read, e.g. Poller::wake().
  // The hook may outlive the dispatcher; then, and before start(), it does nothing.
  //
  //   Dispatcher dispatcher(instance, listeners, {.ordering = Ordering::none});
  //   Writer writer(store, {.hooks = {dispatcher.writer_hook()}});
  std::shared_ptr<WriterHook> writer_hook(std::function<void()> wake = {});

  // Graceful shutdown: stops accepting, delivers queued events within timeouts.drain, flushes
  // the status updates and returns. Events not started are pending in the store as
  // before. Idempotent; fine without start().
  //
  // Throws MisuseError, and changes nothing, in a listener or another callback of its
  // own, which it would wait for. With a Poller, close the dispatcher first: the poller
  // releases what both own.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
