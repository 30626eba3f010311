// Keeps an instance's lease, and its timers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/outage.h"
#include "base/own_thread.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "outbox/clock.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// For whom a lease is kept. A LeaseKeeper calls these one at a time, on the thread that renews.
class LeaseHolder {
 public:
  virtual ~LeaseHolder() = default;

  // What is owned from now on, and until when unless a later renewal extends it. Another epoch
  // than before: drop what was taken and not begun. No epoch: the lease is lost, because it
  // could not be renewed in time, or was given up.
  virtual void on_lease(const Lease& lease, Clock::Steady valid_until) = 0;

  // Why nothing can be delivered or acknowledged in this lease although it is renewed; empty if
  // all is well. The lease is then given up, and acquired again.
  virtual std::string stalled() = 0;

  // Whether to seek ownership at all after it was given up.
  virtual bool able() = 0;

  // Does what is due; when to be called again at the latest.
  virtual std::optional<Clock::Steady> tick() = 0;
};

// One thread that renews the lease well before it ends and does what is due in
// between. It gives up a lease in which nothing moves: the instance leaves, so that
// others may take over, and registers again, at first at once, then after pauses that
// grow while it happens again. Thread-safe.
class LeaseKeeper {
 public:
  // Without an instance it keeps timers only.
  LeaseKeeper(std::shared_ptr<Instance> instance, LeaseHolder& holder, const Clock& clock,
              Logger log);
  ~LeaseKeeper();

  void start();

  // Runs tick() now; also renews the lease if asked to.
  void wake(bool renew = false);

  // Ends the thread. Idempotent.
  void stop();

  // Whether this is its thread, which stop() would wait for.
  bool on_own_thread() const { return OwnThread::works_for(this); }

  // That the lease cannot be renewed.
  const Outage& outage() const { return outage_; }

  // Why the last lease was given up, until there is another one.
  const Outage& given_up() const { return given_up_; }

  // Renews in this thread.
  void renew();

 private:
  void run();
  void give_up(const std::string& why);

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  LeaseHolder& holder_;
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
  Outage outage_;
  Outage given_up_;

  Mutex mutex_;
  CondVar changed_;
  bool woken_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool renew_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;

  Thread thread_;
};

}  // namespace outbox::internal
