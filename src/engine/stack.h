// The delivering half of an outbox: what Outbox wires behind its writer.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/schedule.h"
#include "engine/commit_hook.h"
#include "engine/core.h"
#include "engine/driver.h"
#include "outbox/outbox.h"

namespace outbox::internal {

// One instance's membership, its engine, and who drives it. Thread-safe, except
// that start() is called at most once, and close() once, after it.
class Stack {
 public:
  // `options` as checked() returned them.
  Stack(std::shared_ptr<Store> store, Listeners listeners, const Options& options);

  void start();
  void close(std::chrono::milliseconds drain);

  std::shared_ptr<WriterHook> hook() const { return hook_; }
  bool wait_idle(std::chrono::milliseconds timeout);
  void wake();
  void pause(bool on);
  void pause(const Name& aggregate_type, const Name& type, bool on);
  bool owner() const { return driver_->owner(); }
  const std::string& owner_name() const { return instance_->owner(); }
  std::size_t in_flight() const { return core_->unacknowledged(); }

  // Whether this is one of its threads: a listener's, or that of a callback.
  bool on_own_thread() const {
    return core_->on_own_thread() || driver_->on_own_thread() || counting_.on_own_thread();
  }

  // What is not as it should be, added to `health`.
  void examine(Health& health) const;

 private:
  void count_events();

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const Options options_;
  const Clock& clock_;
  const std::shared_ptr<Instance> instance_;
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Driver> driver_;
  const std::shared_ptr<CommitHook> hook_;

  std::unique_ptr<Watch> watch_;
  std::chrono::steady_clock::time_point next_count_{};  // used by count_events() only
  Schedule counting_;                                   // last: its thread uses the others
};

}  // namespace outbox::internal
