// What the processes have told so far, for the screen. The verdict does not
// rest on it: a killed process takes its last words along.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "cli/demo/messages.h"

namespace outbox::demo {

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

// Not thread-safe.
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
