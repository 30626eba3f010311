// Threads, their time, and what they share without a lock.
//
// With mutex.h this is all that the engine and the store in memory know of threads and time: a
// simulation puts headers of the same names in front of them (tests/simulation/threads), and runs
// the same sources on threads and a clock of its own.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace outbox {

// Joined when it is destroyed.
using Thread = std::jthread;

// Names the calling thread, as debuggers and `top` show it. The kernel keeps 15 characters; the
// rest is cut.
inline void name_this_thread(std::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

// What CondVar::wait_until() goes by.
using SteadyClock = std::chrono::steady_clock;

template <class T>
using Atomic = std::atomic<T>;

// A value of each thread's own, one for every type.
template <class T>
T& per_thread() {
  thread_local T value{};
  return value;
}

// A number that nobody can foretell.
inline unsigned random_seed() { return std::random_device{}(); }

inline void sleep_for(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

// Sleeps for that long, or until the stop; true if it was stopped.
inline bool sleep_for(std::chrono::nanoseconds time, const std::stop_token& stop) {
  // Beyond this, adding to the present time might overflow.
  constexpr std::chrono::hours kLongest{24 * 365};
  if (time <= std::chrono::nanoseconds::zero()) return stop.stop_requested();
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop, std::min<std::chrono::nanoseconds>(time, kLongest),
                   [] { return false; });
  return stop.stop_requested();
}

}  // namespace outbox
