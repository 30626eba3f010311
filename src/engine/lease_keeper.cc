#include "engine/lease_keeper.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/thread.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

// How often to look whether the owner is gone, or a shard is drained: quick
// where it costs a system call, a few times a second where it costs a query.
constexpr milliseconds kStandby{50};
constexpr milliseconds kWaiting{500};
constexpr milliseconds kAfterFailure{250};
constexpr milliseconds kLongestWait{60'000};

// Where a lease cannot expire, only a lock file that somebody removed could
// end it.
constexpr milliseconds kWithoutLease{1'000};

// How long to stay away after a lease was given up again, and after how long without
// that the next one counts as the first.
constexpr milliseconds kFirstPause{250};
constexpr milliseconds kLongestPause{30'000};
constexpr milliseconds kForgotten{300'000};

}  // namespace

LeaseKeeper::LeaseKeeper(std::shared_ptr<Instance> instance, LeaseHolder& holder,
                         const Clock& clock, Logger log)
    : instance_(std::move(instance)), holder_(holder), clock_(clock), log_(std::move(log)) {}

LeaseKeeper::~LeaseKeeper() { stop(); }

void LeaseKeeper::start() {
  thread_ = Thread([this] {
    const OwnThread own(this);
    name_this_thread("outbox-keeper");
    run();
  });
}

void LeaseKeeper::wake(bool renew) {
  MutexLock lock(mutex_);
  woken_ = true;
  renew_ = renew_ || renew;
  changed_.notify_all();
}

void LeaseKeeper::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LeaseKeeper::run() {
  for (;;) {
    bool renew_now = false;
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      woken_ = false;
      renew_now = std::exchange(renew_, false);
    }
    // Where another one keeps the lease, that one asks: each answer counts.
    if (const std::string why = instance_ ? holder_.stalled() : std::string(); !why.empty()) {
      give_up(why);
      renew_now = false;
    }
    if (renew_now || clock_.steady() >= next_renewal_.load()) renew();
    const std::optional<Clock::Steady> next = holder_.tick();
    const Clock::Steady now = clock_.steady();
    const Clock::Steady until =
        std::min({next.value_or(Clock::Steady::max()), next_renewal_.load(), now + kLongestWait});
    // The injected clock says how long to wait; only the host's can be waited on.
    const auto deadline = SteadyClock::now() + (until - now);
    MutexLock lock(mutex_);
    while (!woken_ && !stopped_ && changed_.wait_until(mutex_, deadline)) {
    }
  }
}

// Others may deliver what is stuck here, and connections that lead to the wrong server or hang
// are replaced with the next registration.
void LeaseKeeper::give_up(const std::string& why) {
  const MutexLock lock(renewal_);
  const Clock::Steady now = clock_.steady();
  if (now - gave_up_at_ > kForgotten) pause_ = milliseconds::zero();
  log_(
      {LogLevel::error,
       "lease_given_up",
       "giving up the lease and registering again" +
           (pause_.count() == 0 ? std::string() : " in " + std::to_string(pause_.count()) + " ms") +
           ": " + why,
       {{"error", why}, {"pause_ms", pause_.count()}}});
  given_up_.failed(why, now);
  gave_up_at_ = now;
  next_renewal_ = now + pause_;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  valid_until_ = Clock::Steady::max();
  lapsed_ = true;
  holder_.on_lease({}, Clock::Steady::min());
}

void LeaseKeeper::renew() {
  if (!instance_) {
    next_renewal_ = Clock::Steady::max();
    return;
  }
  const MutexLock lock(renewal_);
  // The lease counts from before the question: the answer may take its time.
  const Clock::Steady asked = clock_.steady();
  try {
    if (lapsed_) {
      // All that was owned has been dropped. Had nobody else taken over, it
      // would come back under the same epoch, and with it what is still running.
      if (!left_) instance_->leave();
      left_ = true;
      if (!holder_.able()) {
        next_renewal_ = asked + kWithoutLease;
        return;
      }
      lapsed_ = false;
      left_ = false;
    }
    const Lease lease = instance_->renew();
    outage_.over();
    given_up_.over();
    const std::optional<milliseconds> duration = instance_->lease_duration();
    valid_until_ = duration ? asked + *duration * 4 / 5 : Clock::Steady::max();
    const bool waiting = lease.epoch == 0 || !lease.draining.empty();
    next_renewal_ = asked + (duration  ? std::min(*duration / 3, waiting ? kWaiting : *duration)
                             : waiting ? kStandby
                                       : kWithoutLease);
    holder_.on_lease(lease, valid_until_);
  } catch (const std::exception& error) {
    next_renewal_ = asked + kAfterFailure;
    outage_.failed(error.what(), asked);
    if (warnings_.allow(asked)) {
      log_({LogLevel::error,
            "lease_not_renewed",
            std::string("cannot renew the lease: ") + error.what(),
            {{"error", error.what()}}});
    }
    if (asked >= valid_until_) {
      valid_until_ = Clock::Steady::max();
      lapsed_ = true;
      holder_.on_lease({}, Clock::Steady::min());
    }
  }
}

}  // namespace outbox::internal
