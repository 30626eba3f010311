// What goes wrong at the moment, for those who ask about health.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "outbox/clock.h"

namespace outbox::internal {

// "12 s"
inline std::string seconds_text(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

// Remembers a failure from its first occurrence until it is over. To say that
// all is well costs next to nothing. Thread-safe.
class Outage {
 public:
  struct Report {
    std::string what;
    Clock::Steady since;
  };

  void failed(std::string what, Clock::Steady now) {
    MutexLock lock(mutex_);
    report_ = Report{.what = std::move(what), .since = report_ ? report_->since : now};
    present_ = true;
  }

  void over() {
    if (!present_.load(std::memory_order_relaxed)) return;
    MutexLock lock(mutex_);
    report_.reset();
    present_ = false;
  }

  std::optional<Report> report() const {
    MutexLock lock(mutex_);
    return report_;
  }

 private:
  mutable Mutex mutex_;
  std::optional<Report> report_ OUTBOX_GUARDED_BY(mutex_);
  Atomic<bool> present_{false};
};

}  // namespace outbox::internal
