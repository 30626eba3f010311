#include "telemetry/prometheus/names.h"

#include <algorithm>
#include <string_view>

#include "base/quote.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox::prometheus {
namespace {

const char* help_of(Counter counter) {
  switch (counter) {
    case Counter::hot_enqueued:
      return "Events that went straight from their commit into the hot queue.";
    case Counter::hot_dropped:
      return "Events that the hot queue had no room for; the poller reads them.";
    case Counter::hot_skipped_delayed:
      return "Events that were not due when they were committed; the poller reads them.";
    case Counter::cold_enqueued:
      return "Events that the poller found in the table.";
    case Counter::success:
      return "Events that became DONE.";
    case Counter::failure:
      return "Attempts that failed and will be repeated.";
    case Counter::deferred:
      return "Deliveries that were deferred without spending an attempt.";
    case Counter::dead:
      return "Events that became DEAD.";
    case Counter::stale_updates:
      return "Status updates that came after the lease was lost and changed nothing.";
    case Counter::hung_calls:
      return "Calls of listeners that exceeded their time limit.";
    case Counter::unroutable:
      return "Events that were deferred because this instance has no listener for them.";
  }
  return "";
}

const char* help_of(Gauge gauge) {
  switch (gauge) {
    case Gauge::hot_depth:
      return "Events in the hot queue.";
    case Gauge::cold_depth:
      return "Events in the cold queue.";
    case Gauge::in_flight:
      return "Events that are taken from the table and not yet acknowledged.";
    case Gauge::pending:
      return "Events in the table that are neither DONE nor DEAD.";
    case Gauge::dead_events:
      return "Events in the table that are DEAD.";
    case Gauge::oldest_lag:
      return "Age of the oldest event that could be delivered now.";
    case Gauge::pending_bytes:
      return "Payload of the pending events that a subscription keeps in the table.";
  }
  return "";
}

bool is_word(std::string_view text) {
  // Not std::isalnum: what counts as a letter must not hang on the locale.
  const auto letter = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_';
  };
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || ('0' <= c && c <= '9'); });
}

}  // namespace

MetricName name_of(Counter counter) {
  return {std::string(to_string(counter)) + "_total", help_of(counter)};
}

MetricName name_of(Gauge gauge) {
  const char* unit = gauge == Gauge::oldest_lag ? "_seconds" : "";
  return {std::string(to_string(gauge)) + unit, help_of(gauge)};
}

MetricName name_of(Timing timing) {
  switch (timing) {
    case Timing::listener:
      return {"listener_duration_seconds", "How long the calls of listeners took."};
    case Timing::commit_to_done:
      return {"commit_to_done_seconds", "From the time an event occurred until it was DONE."};
  }
  return {std::string(to_string(timing)) + "_seconds", ""};
}

std::vector<double> duration_buckets() {
  return {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
          0.05,    0.1,      0.25,    0.5,    1,       2.5,    5,     10,     30,    60};
}

void check_prefix(const std::string& prefix) {
  if (is_word(prefix)) return;
  throw MisuseError("prometheus: the prefix is " + quote(prefix) +
                    ", letters, digits and '_' are allowed, and no digit first");
}

void check_label(const std::string& key, const std::string& value) {
  // `le` belongs to histograms, and two underscores to Prometheus itself.
  if (!is_word(key) || key.starts_with("__") || key == "le") {
    throw MisuseError("prometheus: a label is named " + quote(key) +
                      ", letters, digits and '_' are allowed, no digit and no '__' first, and "
                      "not \"le\"");
  }
  if (!is_valid_utf8(value)) {
    throw MisuseError("prometheus: the label " + quote(key) + " has the value " + quote(value) +
                      ", which is not UTF-8");
  }
}

}  // namespace outbox::prometheus
