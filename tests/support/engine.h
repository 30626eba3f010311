// What tests of an engine share, whatever its store.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "outbox/outbox.h"
#include "outbox/retry.h"
#include "outbox/telemetry/metrics.h"

namespace outbox::testing {

using namespace std::chrono_literals;

inline Draft order_event(const std::string& aggregate_id, const std::string& payload) {
  return {.type = "Happened",
          .aggregate_type = "Order",
          .aggregate_id = aggregate_id,
          .payload = json(payload)};
}

// Returns the id.
inline std::string write(Writer& writer, const Draft& draft) {
  auto tx = writer.begin();
  std::string id = tx.write(draft);
  tx.commit();
  return id;
}
inline std::string write(Outbox& box, const Draft& draft) { return write(box.writer(), draft); }

// Always the same delay.
inline std::shared_ptr<const RetryPolicy> retry_every(std::chrono::milliseconds delay) {
  return std::make_shared<ExponentialBackoff>(
      ExponentialBackoffOptions{.base = delay, .max = delay, .random = [] { return 0.5; }});
}

// Waits for a condition that nobody announces.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds deadline = 20s) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Lets nobody through until it is opened; opened for good when destroyed.
class Barrier {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Whether so many have come.
  bool reached(std::size_t times = 1, std::chrono::milliseconds deadline = 20s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, deadline, [&] { return waiting_ >= times; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::size_t waiting_ = 0;
};

// Opens a barrier when a test ends, however it ends: an engine that is closed waits for
// its calls.
class OpenAtEnd {
 public:
  explicit OpenAtEnd(Barrier& barrier) : barrier_(barrier) {}
  ~OpenAtEnd() { barrier_.open(); }
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;

 private:
  Barrier& barrier_;
};

// Adds up what the engine counts.
class CountingMetrics final : public Metrics {
 public:
  void add(Counter counter, std::uint64_t n) noexcept override {
    counters_[static_cast<std::size_t>(counter)] += n;
  }
  void set(Gauge gauge, double value) noexcept override {
    gauges_[static_cast<std::size_t>(gauge)] = value;
  }
  void observe(Timing timing, std::chrono::nanoseconds) noexcept override {
    ++timings_[static_cast<std::size_t>(timing)];
  }

  std::uint64_t operator[](Counter counter) const {
    return counters_[static_cast<std::size_t>(counter)];
  }
  double operator[](Gauge gauge) const { return gauges_[static_cast<std::size_t>(gauge)]; }
  std::uint64_t operator[](Timing timing) const {
    return timings_[static_cast<std::size_t>(timing)];
  }

 private:
  std::array<std::atomic<std::uint64_t>, 16> counters_{};
  std::array<std::atomic<double>, 16> gauges_{};
  std::array<std::atomic<std::uint64_t>, 16> timings_{};
};

}  // namespace outbox::testing
