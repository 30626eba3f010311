// A mutex that clang's thread-safety analysis understands; it cannot check a
// plain std::mutex of libstdc++.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define OUTBOX_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define OUTBOX_THREAD_ATTRIBUTE(x)
#endif

#define OUTBOX_CAPABILITY(x) OUTBOX_THREAD_ATTRIBUTE(capability(x))
#define OUTBOX_SCOPED_CAPABILITY OUTBOX_THREAD_ATTRIBUTE(scoped_lockable)
#define OUTBOX_GUARDED_BY(x) OUTBOX_THREAD_ATTRIBUTE(guarded_by(x))
#define OUTBOX_REQUIRES(...) OUTBOX_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define OUTBOX_EXCLUDES(...) OUTBOX_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define OUTBOX_ACQUIRE(...) OUTBOX_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define OUTBOX_RELEASE(...) OUTBOX_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

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
