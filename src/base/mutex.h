// A mutex that clang's thread-safety analysis understands; it cannot check a
// plain std::mutex of libstdc++.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/annotations.h"

namespace outbox {

class OUTBOX_CAPABILITY("mutex") Mutex {
 public:
  void lock() OUTBOX_ACQUIRE() { mutex_.lock(); }
  void unlock() OUTBOX_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class OUTBOX_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) OUTBOX_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() OUTBOX_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits without a predicate: the analysis cannot look into lambdas, so callers
// loop over their condition.
class CondVar {
 public:
  void wait(Mutex& mutex) OUTBOX_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // False if the time ran out.
  template <class TimePoint>
  bool wait_until(Mutex& mutex, TimePoint deadline) OUTBOX_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace outbox
