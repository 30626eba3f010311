// Leaves a listener alone while the other side is unavailable.
#pragma once

#include <chrono>
#include <optional>

#include "outbox/clock.h"
#include "outbox/listener.h"
#include "outbox/options.h"

namespace outbox::internal {

// One listener and how it is doing. After a call that found the other side
// unavailable no call starts for a pause; then one does, to probe; then twice as many
// at once with every success, until `workers` may and it is closed again.
//
// Not thread-safe: guarded by the WorkQueue.
class Breaker {
 public:
  Breaker(const Route& route, int workers, BreakerOptions options)
      : route_(&route), workers_(workers), options_(options) {}

  const Route& route() const { return *route_; }

  bool may_start() const { return !held_ && (!limit_ || running_ < *limit_); }
  bool closed() const { return !limit_; }

  // An operator's pause: no call starts until let_go().
  void hold(Clock::Steady now);
  void let_go() { held_ = false; }
  bool held() const { return held_; }

  // How long it has been open or held; zero if it is not.
  std::chrono::nanoseconds open_for(Clock::Steady now) const;

  // A call begins; it ends with an answer (good or bad: the other side is
  // there), or without one.
  void started() { ++running_; }
  void answered();
  void unavailable(Clock::Steady now);
  void not_called() { --running_; }  // it was not ours to begin after all

  // A call that hangs holds back no other, or its listener would get no probe until it returns;
  // when it does, it ends like any other.
  void hangs() { --running_; }
  void returns() { ++running_; }

  // While it pauses: until when. tick() ends the pause if it is over.
  std::optional<Clock::Steady> paused_until() const;
  void tick(Clock::Steady now);

 private:
  const Route* route_;
  const int workers_;
  const BreakerOptions options_;

  std::optional<int> limit_{};  // calls at once; nullopt: any number
  int running_ = 0;
  int pauses_ = 0;  // in a row
  Clock::Steady until_{};
  bool held_ = false;
  Clock::Steady since_{};  // it has been open or held
};

}  // namespace outbox::internal
