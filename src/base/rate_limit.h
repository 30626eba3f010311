// Keeps a warning from filling the log.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/thread.h"
#include "outbox/clock.h"

namespace outbox {

// Allows something at most once in an interval and counts how often it was
// suppressed. Thread-safe and lock-free:
//
//   if (limit.allow(clock.steady())) {
//     warn("queue full", limit.take_suppressed());
//   }
class RateLimit {
 public:
  explicit RateLimit(std::chrono::nanoseconds interval) : interval_(interval) {}

  bool allow(Clock::Steady now) noexcept {
    Clock::Steady next = next_.load(std::memory_order_relaxed);
    if (next <= now && next_.compare_exchange_strong(next, now + interval_)) return true;
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  // How often it was suppressed since the last call of this.
  std::uint64_t take_suppressed() noexcept { return suppressed_.exchange(0); }

 private:
  const std::chrono::nanoseconds interval_;
  Atomic<Clock::Steady> next_{Clock::Steady::min()};
  Atomic<std::uint64_t> suppressed_{0};
};

}  // namespace outbox
