// Test support, for your tests and the library's own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "outbox/clock.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/log.h"

namespace outbox::testing {

// Stands still until you move it. After that, wake whatever waits for the time:
// `clock.advance(1min); box.wake();`. Thread-safe.
class OUTBOX_EXPORT ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start = Time{std::chrono::seconds{1'700'000'000}});

  Time now() const override;
  Steady steady() const override;

  // Moves both clocks.
  void advance(std::chrono::microseconds by);

  // Moves only the time of day, forward or back, as an operator would.
  void step(std::chrono::microseconds by);

 private:
  mutable std::mutex mutex_;
  Time now_;
  Steady steady_{};
};

// Lets a test wait instead of sleeping. Counts how often it was raised. Thread-safe.
class OUTBOX_EXPORT Signal {
 public:
  void raise();

  // Whether it was raised at least `times` times before the deadline passed.
  bool wait(std::size_t times = 1, std::chrono::milliseconds deadline = std::chrono::seconds{20});

  std::size_t count() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable raised_;
  std::size_t count_ = 0;
};

// Records what it received. Give it an answer to fail or to wait. Thread-safe.
class OUTBOX_EXPORT RecordingListener final : public Listener {
 public:
  struct Call {
    Event event;
    int attempt;
  };

  RecordingListener() = default;
  explicit RecordingListener(std::function<Outcome(const Event&, const Delivery&)> answer);

  Outcome on_event(const Event& event, const Delivery& delivery) override;

  // Whether that many calls had come in before the deadline passed.
  bool wait_for(std::size_t calls, std::chrono::milliseconds deadline = std::chrono::seconds{20});

  std::vector<Call> calls() const;
  std::vector<std::string> ids() const;
  std::vector<std::string> payloads() const;
  std::size_t count() const;

 private:
  const std::function<Outcome(const Event&, const Delivery&)> answer_;
  mutable std::mutex mutex_;
  std::condition_variable called_;
  std::vector<Call> calls_;
};

// A new temporary folder for the databases of a test. Removed with everything in it when
// it is destroyed.
class OUTBOX_EXPORT TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const;

 private:
  const std::filesystem::path path_;
};

// Records what was logged. Copies of log() may outlive it. Thread-safe.
class OUTBOX_EXPORT RecordingLog {
 public:
  RecordingLog();
  Logger log() const;

  struct Line {
    LogLevel level;
    std::string code;
    std::string text;
  };
  std::vector<Line> lines() const;

  // Whether any line contains the text.
  bool contains(const std::string& text) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace outbox::testing
