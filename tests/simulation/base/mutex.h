// In the place of src/base/mutex.h: the same classes, under the scheduler of a simulation.
#pragma once

#include <chrono>
#include <optional>

#include "base/annotations.h"
#include "simulation/scheduler.h"

namespace outbox {

class OUTBOX_CAPABILITY("mutex") Mutex {
 public:
  void lock() OUTBOX_ACQUIRE() {
    if (auto* const scheduler = simulation::Scheduler::here()) {
      scheduler->point();
      while (locked_) scheduler->wait(waiters_, std::nullopt, "a mutex");
    }
    locked_ = true;
  }

  void unlock() OUTBOX_RELEASE() {
    release();
    if (auto* const scheduler = simulation::Scheduler::here()) scheduler->point();
  }

 private:
  friend class CondVar;

  // Without a point: a thread that waits for a condition must not miss it in between.
  void release() {
    locked_ = false;
    if (auto* const scheduler = simulation::Scheduler::here()) scheduler->wake_all(waiters_);
  }

  bool locked_ = false;
  simulation::Waiters waiters_;
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

class CondVar {
 public:
  void wait(Mutex& mutex) OUTBOX_REQUIRES(mutex) { wait(mutex, std::nullopt); }

  template <class TimePoint>
  bool wait_until(Mutex& mutex, TimePoint deadline) OUTBOX_REQUIRES(mutex) {
    return wait(mutex, std::optional<simulation::Instant>(deadline));
  }

  void notify_one() {
    auto* const scheduler = simulation::Scheduler::here();
    if (scheduler == nullptr) return;
    scheduler->point();
    scheduler->wake_one(waiters_);
  }
  void notify_all() {
    auto* const scheduler = simulation::Scheduler::here();
    if (scheduler == nullptr) return;
    scheduler->point();
    scheduler->wake_all(waiters_);
  }

 private:
  bool wait(Mutex& mutex, std::optional<simulation::Instant> deadline)
      OUTBOX_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    // A notification without the mutex may come between the look at the condition and the wait.
    simulation::Scheduler::here()->point();
    mutex.release();
    const bool woken = simulation::Scheduler::here()->wait(waiters_, deadline, "a condition");
    mutex.lock();
    return woken;
  }

  simulation::Waiters waiters_;
};

}  // namespace outbox
