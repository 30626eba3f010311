#include "base/schedule.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "base/thread.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

// Beyond this, computing with it might overflow.
constexpr std::chrono::hours kLongestInterval{24 * 365};

}  // namespace

Schedule::Schedule(ScheduleOptions options, Work work)
    : options_(std::move(options)), work_(std::move(work)), pid_(getpid()) {
  if (options_.interval <= std::chrono::milliseconds::zero()) {
    throw MisuseError(options_.what + ": the interval must be positive, got " +
                      std::to_string(options_.interval.count()) + " ms");
  }
}

void Schedule::start() {
  check_process();
  MutexLock lock(mutex_);
  if (closed_) throw MisuseError(options_.what + ": start() after close(); make a new one");
  if (std::exchange(started_, true)) {
    throw MisuseError(options_.what + ": start() was called twice");
  }
  thread_ = Thread([this](const std::stop_token& stop) {
    const OwnThread own(this);
    name_this_thread(options_.thread);
    run(stop);
  });
}

void Schedule::close() {
  check_process();
  if (on_own_thread()) {
    throw MisuseError(options_.what + ": close() in a callback of its own would wait for itself");
  }
  Thread thread;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    thread = std::move(thread_);
  }
  // Its destructor asks it to stop, and joins.
}

bool Schedule::in_this_process() const { return pid_ == getpid(); }

void Schedule::check_process() const {
  if (in_this_process()) return;
  throw MisuseError(options_.what + " belongs to the parent process: make a new one after fork()");
}

void Schedule::run(const std::stop_token& stop) {
  std::minstd_rand random{random_seed()};
  std::uniform_real_distribution<double> jitter(0.9, 1.1);
  const std::chrono::duration<double, std::milli> interval =
      std::min<std::chrono::milliseconds>(options_.interval, kLongestInterval);
  for (;;) {
    try {
      work_(stop);
    } catch (const std::exception& error) {
      options_.log({LogLevel::error,
                    "schedule_failed",
                    options_.what + " failed: " + error.what(),
                    {{"task", options_.what}, {"error", error.what()}}});
    } catch (...) {
      options_.log({LogLevel::error,
                    "schedule_failed",
                    options_.what + " failed with something that is not an exception",
                    {{"task", options_.what}}});
    }
    const auto next =
        std::chrono::duration_cast<std::chrono::nanoseconds>(interval * jitter(random));
    if (sleep_for(next, stop)) return;
  }
}

}  // namespace outbox::internal
