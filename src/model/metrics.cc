#include "outbox/telemetry/metrics.h"

namespace outbox {

std::string_view to_string(Counter counter) {
  switch (counter) {
    case Counter::hot_enqueued:
      return "hot_enqueued";
    case Counter::hot_dropped:
      return "hot_dropped";
    case Counter::hot_skipped_delayed:
      return "hot_skipped_delayed";
    case Counter::cold_enqueued:
      return "cold_enqueued";
    case Counter::success:
      return "success";
    case Counter::failure:
      return "failure";
    case Counter::deferred:
      return "deferred";
    case Counter::dead:
      return "dead";
    case Counter::stale_updates:
      return "stale_updates";
    case Counter::hung_calls:
      return "hung_calls";
    case Counter::unroutable:
      return "unroutable";
  }
  return "unknown";
}

std::string_view to_string(Gauge gauge) {
  switch (gauge) {
    case Gauge::hot_depth:
      return "hot_depth";
    case Gauge::cold_depth:
      return "cold_depth";
    case Gauge::in_flight:
      return "in_flight";
    case Gauge::pending:
      return "pending";
    case Gauge::dead_events:
      return "dead_events";
    case Gauge::oldest_lag:
      return "oldest_lag";
    case Gauge::pending_bytes:
      return "pending_bytes";
  }
  return "unknown";
}

std::string_view to_string(Timing timing) {
  switch (timing) {
    case Timing::listener:
      return "listener";
    case Timing::commit_to_done:
      return "commit_to_done";
  }
  return "unknown";
}

}  // namespace outbox
