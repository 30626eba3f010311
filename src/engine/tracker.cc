#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "outbox/error.h"
#include "outbox/spi/dispatcher.h"

namespace outbox {
namespace {

class TimedTracker final : public InFlightTracker {
 public:
  TimedTracker(std::chrono::milliseconds time_to_live, const Clock& clock)
      : time_to_live_(time_to_live), clock_(clock) {}

  bool try_acquire(std::string_view event_id) override {
    const Clock::Steady now = clock_.steady();
    MutexLock lock(mutex_);
    const auto [entry, inserted] = since_.try_emplace(std::string(event_id), now);
    if (inserted) return true;
    if (now - entry->second < time_to_live_) return false;
    entry->second = now;
    return true;
  }

  void release(std::string_view event_id) override {
    MutexLock lock(mutex_);
    since_.erase(std::string(event_id));
  }

 private:
  const std::chrono::milliseconds time_to_live_;
  const Clock& clock_;
  Mutex mutex_;
  std::unordered_map<std::string, Clock::Steady> since_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<InFlightTracker> timed_tracker(std::chrono::milliseconds time_to_live,
                                               const Clock& clock) {
  if (time_to_live.count() <= 0) {
    throw MisuseError("the tracker's time to live must be positive, got " +
                      std::to_string(time_to_live.count()) + " ms");
  }
  return std::make_shared<TimedTracker>(time_to_live, clock);
}

}  // namespace outbox
