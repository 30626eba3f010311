// When a server that is away is asked again.
#pragma once

#include <chrono>
#include <string>

#include "core/mutex.h"

namespace outbox {

// How often a server that is away is asked: at once after it was there, then with
// pauses that double up to the longest, each a little different. In between
// callers are told what the last attempt was told. Thread-safe.
class Reconnection {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  explicit Reconnection(std::chrono::milliseconds longest_pause = std::chrono::seconds{5})
      : longest_pause_(longest_pause) {}

  // Throws RetryableError while it is too early.
  void check(Instant now) OUTBOX_EXCLUDES(mutex_);
  void failed(const std::string& why, Instant now) OUTBOX_EXCLUDES(mutex_);
  void succeeded() OUTBOX_EXCLUDES(mutex_);

 private:
  const std::chrono::milliseconds longest_pause_;

  Mutex mutex_;
  std::chrono::milliseconds pause_ OUTBOX_GUARDED_BY(mutex_){0};
  Instant next_ OUTBOX_GUARDED_BY(mutex_){};
  std::string why_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox
