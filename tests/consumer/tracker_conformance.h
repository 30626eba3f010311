// One suite that every ConsumptionTracker passes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "outbox/consumer/consumption.h"
#include "support/services.h"

namespace outbox::test {

// How the suite gets at a tracker. A new one for every test.
class TrackerBackend {
 public:
  virtual ~TrackerBackend() = default;

  // The variable that says where its server is; null if it needs none.
  virtual const char* service() const { return nullptr; }

  // On an empty memory the first time; then on the same.
  virtual std::shared_ptr<ConsumptionTracker> open(TrackerOptions options) = 0;

  // Lets time pass: by moving the clock that it was given or, if it goes by a server's
  // clock, by moving what is stored back.
  virtual void advance(std::chrono::milliseconds by) = 0;

  // Whether what open() returns the second time knows what the first one does.
  virtual bool shared() const = 0;
};

using TrackerFactory = std::function<std::unique_ptr<TrackerBackend>()>;

class TrackerTest : public ::testing::TestWithParam<TrackerFactory> {
 protected:
  void SetUp() override {
    backend_ = GetParam()();
    if (backend_->service() != nullptr) OUTBOX_NEEDS_SERVICE(backend_->service());
  }

  std::shared_ptr<ConsumptionTracker> open(TrackerOptions options = {}) {
    return backend_->open(options);
  }

  std::unique_ptr<TrackerBackend> backend_;
};

}  // namespace outbox::test

// OUTBOX_TRACKER_CONFORMANCE(Memory, [] { return std::make_unique<MemoryBackend>(); });
#define OUTBOX_TRACKER_CONFORMANCE(name, ...)                                                 \
  INSTANTIATE_TEST_SUITE_P(name, TrackerTest, ::testing::Values(TrackerFactory(__VA_ARGS__)), \
                           [](const auto&) { return std::string("Tracker"); })
