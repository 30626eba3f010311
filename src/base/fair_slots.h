// A limited number of places, given out first come, first served.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>

#include "base/mutex.h"

namespace outbox {

// A counting semaphore that is fair: a place that becomes free is handed to
// the thread that has waited longest, never put up for grabs. Thread-safe.
class FairSlots {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  explicit FairSlots(std::size_t slots) : free_(slots) {}

  // Waits for a place. False if the deadline passed first.
  bool take(Instant deadline) OUTBOX_EXCLUDES(mutex_);
  void give_back() OUTBOX_EXCLUDES(mutex_);

  // How many stand in line.
  std::size_t waiting() const OUTBOX_EXCLUDES(mutex_);

 private:
  struct Waiter {
    CondVar called;
    bool granted = false;
  };

  mutable Mutex mutex_;
  std::size_t free_ OUTBOX_GUARDED_BY(mutex_);
  std::list<Waiter*> line_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox
