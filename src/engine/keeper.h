// Keeps an instance's tenure, and its timers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/rate_limit.h"
#include "engine/own_thread.h"
#include "engine/trouble.h"
#include "outbox/clock.h"
#include "outbox/log.h"
#include "outbox/store.h"
#include "threads/mutex.h"
#include "threads/thread.h"

namespace outbox::internal {

// One thread that renews the tenure well before it ends and does what is due in
// between. It gives up a tenure in which nothing moves: the instance leaves, so that
// others may take over, and registers anew, at first at once, then after pauses that
// grow while it happens again. Thread-safe.
class Keeper {
 public:
  // All called on the keeper's thread, with no lock held.
  struct Duties {
    // A new tenure, or the same once more, and how long it lasts.
    std::function<void(const Tenure&, Clock::Steady valid_until)> renewed{};

    // It could not be renewed in time, or was given up: nothing is owned any more.
    std::function<void()> expired{};

    // Why nothing can be delivered or marked in this tenure although it is renewed;
    // empty if all is well. Whatever is owned is then given up, and sought anew.
    std::function<std::string()> stalled{};

    // Whether to seek ownership at all after it was given up.
    std::function<bool()> able{};

    // Does what is due; when to be called again at the latest.
    std::function<std::optional<Clock::Steady>()> tick{};
  };

  // Without an instance it keeps timers only.
  Keeper(std::shared_ptr<Instance> instance, Duties duties, const Clock& clock, Logger log);
  ~Keeper();

  void start();

  // Runs tick() now; also renews the tenure if asked to.
  void wake(bool renew = false);

  // Ends the thread. Idempotent.
  void stop();

  // Whether this is its thread, which stop() would wait for.
  bool on_own_thread() const { return OwnThread::works_for(this); }

  // That the tenure cannot be renewed.
  const Trouble& trouble() const { return trouble_; }

  // Why the last tenure was given up, until there is another one.
  const Trouble& given_up() const { return given_up_; }

  // Renews in this thread; the duties are then called on it, one at a time.
  void renew();

 private:
  void run();
  void give_up(const std::string& why);

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  const Duties duties_;
  const Clock& clock_;
  const Logger log_;

  // Held by renew(): a store takes one such call at a time.
  Mutex renewal_;
  Atomic<Clock::Steady> next_renewal_{Clock::Steady{}};
  Clock::Steady valid_until_ = Clock::Steady::max();
  bool lapsed_ = false;  // it could not be renewed in time, or was given up,
  bool left_ = false;    // and the store has been told so
  Clock::Steady gave_up_at_{};
  std::chrono::milliseconds pause_{0};  // after it was given up
  RateLimit warnings_{std::chrono::seconds{10}};
  Trouble trouble_;
  Trouble given_up_;

  Mutex mutex_;
  CondVar changed_;
  bool woken_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool renew_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;

  Thread thread_;
};

}  // namespace outbox::internal
