#include "engine/engine_options.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/bounded.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void refuse(const std::string& what) { throw MisuseError("outbox: " + what); }

void check_mode(const Options& options, const Listeners& listeners, const Store& store) {
  if (options.row_claims && options.mode != Mode::multi_node) {
    refuse("row claims share the work among instances: set mode = Mode::multi_node with them");
  }
  if (options.ordering == Ordering::total && options.mode != Mode::ordered) {
    refuse("a total order needs mode = Mode::ordered, which sets it");
  }
  if (options.mode == Mode::ordered) {
    if (options.ordering == Ordering::none) {
      refuse("mode = Mode::ordered and ordering = Ordering::none contradict each other");
    }
    const Capabilities known = store.capabilities();
    if (known.shards != 1 && !known.total_order) {
      refuse("mode = Mode::ordered: " + store.description() + " cannot read its " +
             std::to_string(known.shards) + " shards in one order of all events");
    }
  }
  if (options.purge && options.purge->age && options.mode != Mode::writer_only) {
    refuse(
        "a purge by age removes events whether they were delivered or not: it is for "
        "Mode::writer_only; set done_retention and dead_retention instead");
  }
  if (options.replay_dead && options.mode == Mode::writer_only) {
    refuse("Mode::writer_only delivers nothing, so there is nobody to replay dead events for");
  }
  if (options.mode != Mode::writer_only && listeners.empty()) {
    refuse(
        "there is no listener, so every event would be DEAD: add the listeners first, or set "
        "mode = Mode::writer_only if another program delivers");
  }
  if (options.mode == Mode::writer_only && !listeners.empty()) {
    refuse("Mode::writer_only delivers nothing, so its listeners would never be called: give none");
  }
}

void check_order(const Options& options) {
  if (options.row_claims && options.ordering != Ordering::none) {
    refuse("row claims keep no order per aggregate: set ordering = Ordering::none with them");
  }
  if (options.row_claims && options.lease.claim.count() <= 0) {
    refuse("lease.claim must be positive, got " + std::to_string(options.lease.claim.count()) +
           " ms");
  }
  if (options.skip_recent.count() > 0 && options.ordering != Ordering::none) {
    refuse(
        "skip_recent lets events of an aggregate overtake each other: set ordering = "
        "Ordering::none with it");
  }
  if (options.dead.then != OnDead::skip && options.ordering == Ordering::none) {
    refuse("dead.then = block or park needs an order: without one no event waits for another");
  }
}

}  // namespace

Options checked(Options options, const Listeners& listeners, const Store& store) {
  check_mode(options, listeners, store);
  check_order(options);
  if (options.queue.batch == 0) refuse("queue.batch must be at least 1");
  if (options.lease.duration < milliseconds{100}) {
    refuse("lease.duration must be at least 100 ms, got " +
           std::to_string(options.lease.duration.count()) + " ms");
  }
  options.lease.duration = bounded(options.lease.duration);
  options.lease.claim = bounded(options.lease.claim);
  if (options.mode == Mode::ordered) options.ordering = Ordering::total;
  if (!options.log) options.log = standard_error_log();
  if (options.purge && !options.purge->log) options.purge->log = options.log;
  if (options.replay_dead && !options.replay_dead->log) options.replay_dead->log = options.log;
  if (options.row_claims && !store.capabilities().row_claims) {
    options.log({LogLevel::warning,
                 "row_claims_unavailable",
                 store.description() + " has no row claims: this instance owns whole shards "
                                       "instead",
                 {{"store", store.description()}}});
    options.row_claims = false;
  }
  return options;
}

DispatcherOptions checked(DispatcherOptions options) {
  const auto refuse = [](const std::string& what) { throw MisuseError("dispatcher: " + what); };
  if (options.workers < 1)
    refuse("workers must be at least 1, got " + std::to_string(options.workers));
  if (options.queue.hot_capacity == 0) refuse("queue.hot_capacity must be at least 1");
  if (options.queue.cold_capacity == 0) refuse("queue.cold_capacity must be at least 1");
  if (options.queue.capacity_bytes == 0) refuse("queue.capacity_bytes must be at least 1");
  if (options.retry.max_attempts < 1) {
    refuse("retry.max_attempts must be at least 1, got " +
           std::to_string(options.retry.max_attempts));
  }
  if (options.timeouts.drain.count() < 0) refuse("timeouts.drain must not be negative");
  if (options.timeouts.hung.count() <= 0) refuse("timeouts.hung must be positive");
  if (options.timeouts.stalled.count() <= 0) refuse("timeouts.stalled must be positive");
  if (options.breaker.pause.count() <= 0 || options.breaker.pause > options.breaker.max_pause) {
    refuse("breaker needs 0 < pause <= max_pause, got breaker.pause = " +
           std::to_string(options.breaker.pause.count()) +
           " ms, breaker.max_pause = " + std::to_string(options.breaker.max_pause.count()) + " ms");
  }
  options.timeouts.drain = bounded(options.timeouts.drain);
  options.timeouts.hung = bounded(options.timeouts.hung);
  options.timeouts.stalled = bounded(options.timeouts.stalled);
  options.breaker.pause = bounded(options.breaker.pause);
  options.breaker.max_pause = bounded(options.breaker.max_pause);
  if (options.lock_timeout) options.lock_timeout = bounded(*options.lock_timeout);
  if (!options.retry.policy) options.retry.policy = std::make_shared<ExponentialBackoff>();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

PollerOptions checked(PollerOptions options) {
  if (options.batch == 0) throw MisuseError("batch must be at least 1");
  if (options.interval.count() <= 0) {
    throw MisuseError("the poll interval must be positive, got " +
                      std::to_string(options.interval.count()) + " ms");
  }
  if (options.skip_recent.count() < 0) {
    throw MisuseError("skip_recent must not be negative, got " +
                      std::to_string(options.skip_recent.count()) + " ms");
  }
  if (options.max_solo_crashes < 1) {
    throw MisuseError("max_solo_crashes must be at least 1, got " +
                      std::to_string(options.max_solo_crashes));
  }
  if (options.stalled_after.count() <= 0) throw MisuseError("stalled_after must be positive");
  options.stalled_after = bounded(options.stalled_after);
  options.interval = bounded(options.interval);
  options.skip_recent = bounded(options.skip_recent);
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

InstanceOptions instance_options(const Options& options) {
  return {.name = options.name,
          .capacity = options.queue.hot_capacity + options.queue.cold_capacity,
          .lease = options.lease.duration,
          .exclusive = options.mode != Mode::multi_node,
          .total_order = options.mode == Mode::ordered,
          .row_claims = options.row_claims,
          .lock_timeout = options.lease.claim};
}

DispatcherOptions dispatcher_options(const Options& options, const Clock& clock) {
  DispatcherOptions result{.workers = options.workers,
                           .ordering = options.ordering,
                           .on_unroutable = options.on_unroutable.value_or(OnUnroutable::dead),
                           .queue = options.queue,
                           .retry = options.retry,
                           .dead = options.dead,
                           .breaker = options.breaker,
                           .timeouts = options.timeouts,
                           .interceptors = options.interceptors,
                           .log = options.log,
                           .metrics = options.metrics,
                           .clock = &clock};
  if (options.row_claims) result.lock_timeout = options.lease.claim;
  return result;
}

PollerOptions poller_options(const Options& options, const Clock& clock) {
  return checked(PollerOptions{.batch = options.queue.batch,
                               .interval = options.poll_interval,
                               .skip_recent = options.skip_recent,
                               .row_claims = options.row_claims,
                               .max_solo_crashes = options.max_solo_crashes,
                               .stalled_after = options.timeouts.stalled,
                               .log = options.log,
                               .clock = &clock});
}

WorkQueueOptions queue_options(const DispatcherOptions& options,
                               const std::optional<PollerOptions>& polling, std::size_t routes) {
  // The queue decides by it when a worker should read; without a poller none does.
  const std::size_t batch = polling ? polling->batch : 1;
  WorkQueueOptions result{.workers = options.workers,
                          .hot_capacity = options.queue.hot_capacity,
                          .cold_capacity = options.queue.cold_capacity,
                          .capacity_bytes = options.queue.capacity_bytes,
                          .batch = std::min(batch, options.queue.cold_capacity),
                          .park = options.dead.then == OnDead::park,
                          .routes = routes,
                          .track_ids = options.tracker == nullptr};
  // There is nobody that the only lane could keep out.
  if (options.ordering == Ordering::total) {
    result.lane_limit = options.queue.hot_capacity + options.queue.cold_capacity;
  }
  return result;
}

}  // namespace outbox::internal
