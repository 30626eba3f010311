// What the tests of the engine share.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/faulty_store.h"

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

// Outboxes on one store in memory whose events all go to one listener.
class EngineTest : public ::testing::Test {
 protected:
  // Not started.
  std::unique_ptr<Outbox> make(Options options = {}, std::shared_ptr<Listener> to = {}) {
    options.log = log.log();
    options.metrics = metrics;
    // A test's clock runs ahead of its threads: who stands still for a tenth of a second has not
    // stalled. Tests of that name a time of their own.
    if (options.timeouts.stalled == Options{}.timeouts.stalled) options.timeouts.stalled = 24h;
    Listeners on;
    on.add("Order", "Happened", to ? to : std::static_pointer_cast<Listener>(recorder));
    return std::make_unique<Outbox>(store, on, options);
  }

  std::unique_ptr<Outbox> open(Options options = {}, std::shared_ptr<Listener> to = {}) {
    auto box = make(std::move(options), std::move(to));
    box->start();
    return box;
  }

  // Writes without any engine's knowledge.
  std::string write_elsewhere(const Draft& draft) {
    Writer writer{bare_store};
    return write(writer, draft);
  }

  Status status(const std::string& id) { return store->find(id)->row.status; }
  int attempts(const std::string& id) { return store->find(id)->row.attempts; }

  // Moves the clock by steps, so that whatever is due on the way happens.
  void pass(Outbox& box, std::chrono::milliseconds time, std::chrono::milliseconds step = 1s) {
    for (; time > 0ms; time -= step) {
      clock.advance(std::min(time, step));
      box.wake();
    }
  }

  // Moves the clock until it is so.
  template <class Condition>
  bool in_time(Outbox& box, const Condition& condition) {
    return eventually([&] {
      clock.advance(100ms);
      box.wake();
      return condition();
    });
  }

  ManualClock clock;
  RecordingLog log;
  std::shared_ptr<CountingMetrics> metrics = std::make_shared<CountingMetrics>();
  std::shared_ptr<RecordingListener> recorder = std::make_shared<RecordingListener>();
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::shared_ptr<Store> bare_store = memory::open({.clock = &clock});
  std::shared_ptr<Store> store = faulty(bare_store, faults);
};

}  // namespace outbox::testing
