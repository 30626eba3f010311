// Events that wait for a listener that is not here.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "outbox/clock.h"
#include "outbox/event.h"

namespace outbox::internal {

// Remembers which types were met, for operators. A type that is not met any more is
// forgotten. Thread-safe.
class Unrouted {
 public:
  // Every event that waits is looked at again within this time.
  static constexpr std::chrono::milliseconds kLongestWait{60'000};

  // True if its type was not known.
  bool note(const Event& event, Clock::Steady now) {
    MutexLock lock(mutex_);
    forget(now);
    const std::string name = event.aggregate_type() + "/" + event.type();
    if (types_.size() >= kMost && !types_.contains(name)) return false;
    return types_.insert_or_assign(name, now).second;
  }

  // "Order/OrderPlaced".
  std::vector<std::string> types(Clock::Steady now) const {
    MutexLock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, met] : types_) {
      if (!over(met, now)) names.push_back(name);
    }
    return names;
  }

 private:
  static constexpr std::size_t kMost = 100;

  static bool over(Clock::Steady met, Clock::Steady now) { return now - met > 3 * kLongestWait; }
  void forget(Clock::Steady now) OUTBOX_REQUIRES(mutex_) {
    std::erase_if(types_, [&](const auto& type) { return over(type.second, now); });
  }

  mutable Mutex mutex_;
  std::map<std::string, Clock::Steady> types_ OUTBOX_GUARDED_BY(mutex_);  // when last met
};

}  // namespace outbox::internal
