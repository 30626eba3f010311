// In the place of src/base/thread.h: the same names, under the scheduler of a simulation.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "simulation/scheduler.h"

namespace outbox {

// As std::jthread.
class Thread {
 public:
  Thread() = default;

  template <class Body>
  requires(!std::is_same_v<std::remove_cvref_t<Body>, Thread>) explicit Thread(Body&& body)
      : stop_(std::in_place) {
    auto shared = std::make_shared<std::decay_t<Body>>(std::forward<Body>(body));
    id_ = simulation::Scheduler::here()->start([shared, stop = stop_->get_token()] {
      if constexpr (std::is_invocable_v<std::decay_t<Body>&, std::stop_token>) {
        (*shared)(stop);
      } else {
        (*shared)();
      }
    });
  }

  ~Thread() { end(); }
  Thread(Thread&& other) noexcept
      : stop_(std::exchange(other.stop_, std::nullopt)),
        id_(std::exchange(other.id_, std::nullopt)) {}
  Thread& operator=(Thread&& other) noexcept {
    if (this == &other) return *this;
    end();
    stop_ = std::exchange(other.stop_, std::nullopt);
    id_ = std::exchange(other.id_, std::nullopt);
    return *this;
  }

  bool joinable() const { return id_.has_value(); }
  void join() { simulation::Scheduler::here()->join(*std::exchange(id_, std::nullopt)); }
  void detach() { id_.reset(); }

 private:
  void end() {
    if (!joinable()) return;
    stop_->request_stop();
    join();
  }

  std::optional<std::stop_source> stop_{};
  std::optional<simulation::Scheduler::ThreadId> id_{};
};

inline void name_this_thread(std::string_view name) {
  simulation::Scheduler::here()->name_thread(std::string(name));
}

struct SteadyClock {
  static simulation::Instant now() {
    const auto* const scheduler = simulation::Scheduler::here();
    return scheduler == nullptr ? simulation::Instant{} : scheduler->now();
  }
};

// Each use is a point at which another thread may go on.
template <class T>
class Atomic {
 public:
  Atomic() = default;
  Atomic(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): as std::atomic
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order /*order*/ = std::memory_order_seq_cst) const {
    point();
    return value_;
  }
  void store(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) {
    point();
    value_ = value;
  }
  T exchange(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) {
    point();
    return std::exchange(value_, value);
  }
  bool compare_exchange_strong(T& expected, T value,
                               std::memory_order /*order*/ = std::memory_order_seq_cst) {
    point();
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    value_ = value;
    return true;
  }
  T fetch_add(T more, std::memory_order /*order*/ = std::memory_order_seq_cst) {
    point();
    return std::exchange(value_, static_cast<T>(value_ + more));
  }
  T fetch_sub(T less, std::memory_order /*order*/ = std::memory_order_seq_cst) {
    point();
    return std::exchange(value_, static_cast<T>(value_ - less));
  }

  operator T() const { return load(); }  // NOLINT(google-explicit-constructor): as std::atomic
  T operator=(T value) {
    store(value);
    return value;
  }
  T operator++() { return static_cast<T>(fetch_add(1) + 1); }
  T operator--() { return static_cast<T>(fetch_sub(1) - 1); }
  T operator++(int) { return fetch_add(1); }

 private:
  static void point() {
    if (auto* const scheduler = simulation::Scheduler::here()) scheduler->point();
  }

  T value_{};
};

template <class T>
T& per_thread() {
  if (auto* const scheduler = simulation::Scheduler::here()) return scheduler->local<T>();
  static T outside{};
  return outside;
}

// The same in every history.
inline unsigned random_seed() {
  static unsigned last = 1;
  return last = last * 1'664'525U + 1'013'904'223U;
}

inline void sleep_for(std::chrono::nanoseconds time) {
  auto* const scheduler = simulation::Scheduler::here();
  scheduler->sleep_until(scheduler->now() + time);
}

inline bool sleep_for(std::chrono::nanoseconds time, const std::stop_token& stop) {
  constexpr std::chrono::hours kLongest{24 * 365};
  auto* const scheduler = simulation::Scheduler::here();
  if (time <= std::chrono::nanoseconds::zero()) return stop.stop_requested();
  return scheduler->wait_for([&] { return stop.stop_requested(); },
                             scheduler->now() + std::min<std::chrono::nanoseconds>(time, kLongest),
                             "a stop");
}

}  // namespace outbox
