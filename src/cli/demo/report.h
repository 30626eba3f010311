// What every process of the demo tells the one that started it, as lines on its standard output,
// and the figures that follow from that.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "outbox/log.h"

namespace outbox::demo {

// A moment on the monotonic clock, which all processes of a host share.
using Moment = std::chrono::steady_clock::time_point;

struct Report {
  enum class Kind : std::uint8_t {
    ready,        // has started and does its work
    committed,    // an order: id, at
    rolled_back,  // an order: id
    received,     // an order for the first time: id, at
    duplicate,    // an order that the receiver knew already: id, at
    log,          // text
  };

  Kind kind = Kind::log;
  std::string id{};
  Moment at{};
  std::string text{};

  std::string line() const;

  // A line that is none of ours, such as a last word on standard error, is a
  // line of the log.
  static Report parse(std::string_view line);

  friend bool operator==(const Report&, const Report&) = default;
};

// Writes the report to standard output, in one piece.
void tell(const Report& report);

// Tells every message from `least` on.
Logger telling_log(LogLevel least = LogLevel::info);

struct Figures {
  std::int64_t committed = 0;
  std::int64_t rolled_back = 0;
  std::int64_t delivered = 0;
  std::int64_t duplicates = 0;
  std::int64_t pending = 0;

  // In the last second.
  std::int64_t commit_rate = 0;
  std::int64_t delivery_rate = 0;

  // From COMMIT's return to the receiver, over the last deliveries.
  std::optional<std::chrono::microseconds> p50{};
  std::optional<std::chrono::microseconds> p99{};
};

// What the processes have told so far, for the screen. The verdict does not rest on it: a killed
// process takes its last words along. Not thread-safe.
class Stats {
 public:
  void add(const Report& report);
  Figures figures(Moment now) const;

 private:
  void delivered(Moment committed, Moment received);

  Figures totals_;
  std::unordered_map<std::string, Moment> under_way_;  // committed, not yet received
  std::unordered_map<std::string, Moment> early_;      // received before the writer said so
  std::deque<Moment> commits_;                         // of the last second
  std::deque<std::pair<Moment, std::chrono::microseconds>> latencies_;
};

}  // namespace outbox::demo
