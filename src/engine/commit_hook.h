// Starts the delivery of events when their transaction has committed.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "engine/core.h"
#include "engine/driver.h"
#include "outbox/writer.h"

namespace outbox::internal {

// With order a commit merely wakes the reader, which alone admits events.
// Without, the event goes from memory into the hot queue; it is reserved before
// its row can be visible, so that the reader cannot take it as well.
//
// Thread-safe.
class CommitHook final : public WriterHook {
 public:
  // Which events go straight into the hot queue: none, all, or those whose row
  // was inserted as claimed (another instance may claim any other).
  enum class Direct { none, all, claimed };

  CommitHook(std::shared_ptr<Core> core, std::shared_ptr<Driver> driver, Direct direct,
             const Clock& clock, Logger log);

  void after_write(std::span<const Written> events) override;
  void after_commit(std::span<const Written> events) override;
  void after_rollback(std::span<const Written> events) override;
  void outcome_unknown(std::span<const Written> events) override;

  // Before start() and after close() nothing is taken directly.
  void set_active(bool active) { active_ = active; }

 private:
  bool takes(const Written& written) const;
  void leave_to_reader(const Written& written);
  void refuse(const Event& event);
  bool was_refused(const Event& event);
  Clock::Steady due(const Written& written) const;

  // Constant after construction.
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Driver> driver_;
  const Direct direct_;
  const Clock& clock_;
  const Logger log_;

  Atomic<bool> active_{false};
  RateLimit warnings_{std::chrono::seconds{10}};

  // Of open transactions: those that could not be reserved. Hardly ever any.
  Atomic<bool> any_refused_{false};
  Mutex mutex_;
  std::set<std::string> refused_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::internal
