// The engine's metrics, for a monitoring system of your choice.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "outbox/export.h"

namespace outbox {

enum class Counter {
  hot_enqueued,         // straight from a commit into the hot queue
  hot_dropped,          // hot queue full or closing: left to the poller
  hot_skipped_delayed,  // not yet available: left to the poller
  cold_enqueued,        // found by the poller
  success,              // became DONE
  failure,              // attempts that failed and will be repeated
  deferred,             // retry_after, or a listener that is unavailable
  dead,                 // became DEAD
  stale_updates,        // updates that came too late and changed nothing
  hung_calls,           // listener calls that exceeded timeouts.hung
  unroutable,           // events deferred for lack of a listener (OnUnroutable::wait)
};

enum class Gauge {
  hot_depth,    // events in the hot queue
  cold_depth,   // events in the cold queue
  in_flight,    // events taken from the store and not yet acknowledged
  pending,      // rows that are neither DONE nor DEAD
  dead_events,  // rows that are DEAD
  oldest_lag,   // age in seconds of the oldest event that could be delivered now

  // Bytes of the payloads of pending rows, which a subscription keeps from being purged; 0 where
  // there are no subscriptions.
  pending_bytes,
};

enum class Timing {
  listener,        // one call of a listener
  commit_to_done,  // from an event's occurred-at to its DONE update
};

// snake_case names as above, for exporters.
OUTBOX_EXPORT std::string_view to_string(Counter counter);
OUTBOX_EXPORT std::string_view to_string(Gauge gauge);
OUTBOX_EXPORT std::string_view to_string(Timing timing);

// Receives the counts. Called from many threads concurrently, on the workers' path:
// must be thread-safe and quick, and must not throw.
class OUTBOX_EXPORT Metrics {
 public:
  virtual ~Metrics() = default;

  virtual void add(Counter counter, std::uint64_t n = 1) noexcept = 0;
  virtual void set(Gauge gauge, double value) noexcept = 0;
  virtual void observe(Timing timing, std::chrono::nanoseconds value) noexcept = 0;

  // The same for one subscription (Outbox::subscribe()). Null, as here: it is not measured.
  virtual std::shared_ptr<Metrics> of_subscription(const std::string& /*name*/) { return nullptr; }
};

}  // namespace outbox
