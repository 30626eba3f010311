// Work that is done now and then on a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "base/mutex.h"
#include "base/own_thread.h"
#include "base/thread.h"
#include "outbox/log.h"

namespace outbox::internal {

struct ScheduleOptions {
  std::string what{};    // names it in messages: "purge"
  std::string thread{};  // its thread's name, up to 15 characters
  std::chrono::milliseconds interval{};
  Logger log{};
};

// Calls a function at once and then again and again, each time an interval
// after its end, give or take a tenth. What it throws is logged. Thread-safe.
class Schedule {
 public:
  using Work = std::function<void(const std::stop_token&)>;

  // Throws MisuseError if the interval is not positive.
  Schedule(ScheduleOptions options, Work work);
  ~Schedule() { close(); }
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // Throws MisuseError when called twice or after close().
  void start() OUTBOX_EXCLUDES(mutex_);

  // Asks the work to stop and waits for it. Idempotent, also without start().
  // Throws MisuseError if the work calls it.
  void close() OUTBOX_EXCLUDES(mutex_);

  // Whether this is its thread, which close() would wait for.
  bool on_own_thread() const { return OwnThread::works_for(this); }

  // False in a child made by fork(), which has no such thread: neither close nor
  // destroy it there.
  bool in_this_process() const;

 private:
  void run(const std::stop_token& stop);
  void check_process() const;

  // Constant after construction.
  const ScheduleOptions options_;
  const Work work_;
  const int pid_;

  Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
  Thread thread_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::internal
