// What src/base/ offers, each beside the standard library's own: a `seam_x` and a `plain_x`.
// `compare` compiles this as a release and compares the instructions of the two; the compiler
// itself compares what is only another name. (sleep_for() with a stop_token stands for nothing that
// the library has: it is a function of its own.)
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

#include "base/mutex.h"
#include "base/thread.h"

using outbox::CondVar;
using outbox::Mutex;
using outbox::MutexLock;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

static_assert(std::is_same_v<outbox::Thread, std::jthread>);
static_assert(std::is_same_v<outbox::SteadyClock, steady_clock>);
static_assert(std::is_same_v<outbox::Atomic<int>, std::atomic<int>>);
static_assert(std::is_same_v<outbox::Atomic<void*>, std::atomic<void*>>);

template <class Ours, class Plain>
constexpr bool kAlike = sizeof(Ours) == sizeof(Plain) && !std::is_polymorphic_v<Ours>;
static_assert(kAlike<Mutex, std::mutex>);
static_assert(kAlike<MutexLock, std::lock_guard<std::mutex>>);
static_assert(kAlike<CondVar, std::condition_variable>);

struct Value {
  int number = 0;
};

// Plain names in the disassembly; and where a compiler would call the seam's function instead of
// taking it in, both sides are taken apart alike.
#define FUNCTION extern "C" __attribute__((flatten))

FUNCTION void seam_lock(Mutex& mutex, int& number) {
  const MutexLock lock(mutex);
  ++number;
}
FUNCTION void plain_lock(std::mutex& mutex, int& number) {
  const std::lock_guard lock(mutex);
  ++number;
}

FUNCTION void seam_unlock_for(Mutex& mutex, void call()) {
  mutex.unlock();
  call();
  mutex.lock();
}
FUNCTION void plain_unlock_for(std::mutex& mutex, void call()) {
  mutex.unlock();
  call();
  mutex.lock();
}

FUNCTION void seam_wait(Mutex& mutex, CondVar& changed, const bool& ready) {
  const MutexLock lock(mutex);
  while (!ready) changed.wait(mutex);
}
FUNCTION void plain_wait(std::mutex& mutex, std::condition_variable& changed, const bool& ready) {
  std::unique_lock lock(mutex);
  while (!ready) changed.wait(lock);
}

FUNCTION bool seam_wait_until(Mutex& mutex, CondVar& changed, const bool& ready,
                              const steady_clock::time_point& deadline) {
  const MutexLock lock(mutex);
  while (!ready) {
    if (!changed.wait_until(mutex, deadline)) return false;
  }
  return true;
}
FUNCTION bool plain_wait_until(std::mutex& mutex, std::condition_variable& changed,
                               const bool& ready, const steady_clock::time_point& deadline) {
  std::unique_lock lock(mutex);
  while (!ready) {
    if (changed.wait_until(lock, deadline) == std::cv_status::timeout) return false;
  }
  return true;
}

FUNCTION void seam_notify(CondVar& changed) {
  changed.notify_one();
  changed.notify_all();
}
FUNCTION void plain_notify(std::condition_variable& changed) {
  changed.notify_one();
  changed.notify_all();
}

FUNCTION void seam_sleep(const nanoseconds& time) { outbox::sleep_for(time); }
FUNCTION void plain_sleep(const nanoseconds& time) { std::this_thread::sleep_for(time); }

FUNCTION int seam_per_thread() { return ++outbox::per_thread<Value>().number; }
FUNCTION int plain_per_thread() {
  thread_local Value value{};
  return ++value.number;
}

FUNCTION unsigned seam_random_seed() { return outbox::random_seed(); }
FUNCTION unsigned plain_random_seed() { return std::random_device{}(); }

FUNCTION void seam_name(std::string_view name) { outbox::name_this_thread(name); }
FUNCTION void plain_name(std::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

// What a seam would look like that can be changed while the program runs: must be found out.
void (*hook)() = nullptr;
FUNCTION void seam_hooked(Mutex& mutex, int& number) {
  if (hook) hook();
  const MutexLock lock(mutex);
  ++number;
}
FUNCTION void plain_hooked(std::mutex& mutex, int& number) {
  const std::lock_guard lock(mutex);
  ++number;
}
