// What the unit tests of the engine share: outboxes on a store in memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/engine.h"
#include "support/faulty_store.h"

namespace outbox::testing {

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

  Status status(const std::string& id) { return store->admin().find(id)->row.status; }

  ManualClock clock;
  RecordingLog log;
  std::shared_ptr<CountingMetrics> metrics = std::make_shared<CountingMetrics>();
  std::shared_ptr<RecordingListener> recorder = std::make_shared<RecordingListener>();
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::shared_ptr<Store> bare_store = memory::open({.clock = &clock});
  std::shared_ptr<Store> store = faulty(bare_store, faults);
};

}  // namespace outbox::testing
