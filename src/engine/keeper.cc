#include "engine/keeper.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "threads/thread.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

// How often to look whether the owner is gone, or a shard is drained: quick
// where it costs a system call, a few times a second where it costs a query.
constexpr milliseconds kStandby{50};
constexpr milliseconds kWaiting{500};
constexpr milliseconds kAfterFailure{250};
constexpr milliseconds kLongestWait{60'000};

// Where a tenure cannot expire, only a lock file that somebody removed could
// end it.
constexpr milliseconds kWithoutLease{1'000};

// How long to stay away after a tenure was given up again, and after how long without
// that the next one counts as the first.
constexpr milliseconds kFirstPause{250};
constexpr milliseconds kLongestPause{30'000};
constexpr milliseconds kForgotten{300'000};

}  // namespace

Keeper::Keeper(std::shared_ptr<Instance> instance, Duties duties, const Clock& clock, Logger log)
    : instance_(std::move(instance)),
      duties_(std::move(duties)),
      clock_(clock),
      log_(std::move(log)) {}

Keeper::~Keeper() { stop(); }

void Keeper::start() {
  thread_ = Thread([this] {
    const OwnThread own(this);
    name_this_thread("outbox-keeper");
    run();
  });
}

void Keeper::wake(bool renew) {
  MutexLock lock(mutex_);
  woken_ = true;
  renew_ = renew_ || renew;
  changed_.notify_all();
}

void Keeper::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Keeper::run() {
  for (;;) {
    bool renew_now = false;
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      woken_ = false;
      renew_now = std::exchange(renew_, false);
    }
    // Where another one keeps the tenure, that one asks: each answer counts.
    const bool asks = instance_ && duties_.stalled;
    if (const std::string why = asks ? duties_.stalled() : std::string(); !why.empty()) {
      give_up(why);
      renew_now = false;
    }
    if (renew_now || clock_.steady() >= next_renewal_.load()) renew();
    const std::optional<Clock::Steady> next = duties_.tick();
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

// Others may deliver what is stuck here, and whatever led to the wrong server or hangs
// in this process is opened anew with the next registration.
void Keeper::give_up(const std::string& why) {
  const MutexLock lock(renewal_);
  const Clock::Steady now = clock_.steady();
  if (now - gave_up_at_ > kForgotten) pause_ = milliseconds::zero();
  log_(LogLevel::error,
       "giving up the ownership of events and registering anew" +
           (pause_.count() == 0 ? std::string() : " in " + std::to_string(pause_.count()) + " ms") +
           ": " + why);
  given_up_.failed(why, now);
  gave_up_at_ = now;
  next_renewal_ = now + pause_;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  valid_until_ = Clock::Steady::max();
  lapsed_ = true;
  duties_.expired();
}

void Keeper::renew() {
  if (!instance_) {
    next_renewal_ = Clock::Steady::max();
    return;
  }
  const MutexLock lock(renewal_);
  // The tenure counts from before the question: the answer may take its time.
  const Clock::Steady asked = clock_.steady();
  try {
    if (lapsed_) {
      // All that was owned has been dropped. Had nobody else taken over, it
      // would come back under the same epoch, and with it what is still running.
      if (!left_) instance_->leave();
      left_ = true;
      if (duties_.able && !duties_.able()) {
        next_renewal_ = asked + kWithoutLease;
        return;
      }
      lapsed_ = false;
      left_ = false;
    }
    const Tenure tenure = instance_->renew();
    trouble_.over();
    given_up_.over();
    const std::optional<milliseconds> lease = instance_->lease();
    valid_until_ = lease ? asked + *lease * 4 / 5 : Clock::Steady::max();
    const bool waiting = tenure.epoch == 0 || !tenure.leaving.empty();
    next_renewal_ = asked + (lease     ? std::min(*lease / 3, waiting ? kWaiting : *lease)
                             : waiting ? kStandby
                                       : kWithoutLease);
    duties_.renewed(tenure, valid_until_);
  } catch (const std::exception& error) {
    next_renewal_ = asked + kAfterFailure;
    trouble_.failed(error.what(), asked);
    if (warnings_.allow(asked)) {
      log_(LogLevel::error, std::string("cannot renew the ownership of events: ") + error.what());
    }
    if (asked >= valid_until_) {
      valid_until_ = Clock::Steady::max();
      lapsed_ = true;
      duties_.expired();
    }
  }
}

}  // namespace outbox::internal
