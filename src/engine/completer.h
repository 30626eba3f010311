// Brings marks to the store, in natural batches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "engine/job.h"
#include "engine/trouble.h"
#include "outbox/clock.h"
#include "outbox/log.h"
#include "outbox/store.h"

namespace outbox::internal {

// One thread that flushes marks: whatever was submitted while the last flush
// was under way goes into the next one. There is no timer: an idle engine marks
// at once, a busy one in hundreds. Marks land in the order of submission.
//
// A flush that fails is repeated until it succeeds or the tenure is lost; the
// marks are never dropped silently. Thread-safe.
class Completer {
 public:
  // Called on the completer's thread, with no lock held.
  struct Events {
    // These have landed, or are marked `stale`.
    std::function<void(std::span<Completion>)> landed{};
    // The store refused because another instance owns what was marked in this epoch.
    std::function<void(std::int64_t epoch)> fenced{};
  };

  Completer(std::shared_ptr<Instance> instance, Events events, const Clock& clock, Logger log);
  ~Completer();

  void start();
  void submit(Completion completion);
  void submit(std::vector<Completion> completions);

  // What was submitted under an older epoch is stale from now on, and comes back as
  // soon as the store lets it.
  void set_epoch(std::int64_t epoch);

  // That the store does not take marks.
  const Trouble& trouble() const { return trouble_; }

  // Flushes and ends the thread; gives up at the deadline. False if marks were
  // left, whose events will be delivered again.
  bool close(std::chrono::steady_clock::time_point deadline);

 private:
  void run();
  std::int64_t epoch() const;
  bool flush(std::vector<Completion>& batch, std::int64_t epoch);
  bool wait_before_repeat(int failures, std::int64_t epoch);

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  const Events events_;
  const Clock& clock_;
  const Logger log_;

  Trouble trouble_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Completion> pending_ OUTBOX_GUARDED_BY(mutex_);
  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  bool closing_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool left_some_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point give_up_ OUTBOX_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::time_point::max();

  std::jthread thread_;
};

}  // namespace outbox::internal
