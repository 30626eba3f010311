#include "outbox/consumer/consumption.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stop_token>
#include <utility>

#include "base/quote.h"
#include "base/schedule.h"
#include "base/thread.h"
#include "consumer/tracker_rules.h"
#include "model/group_listener.h"
#include "model/outcome.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

// Between two attempts to record an effect.
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{1'000};

// Beyond this, adding to the present time might overflow.
constexpr milliseconds kLongestFinish{std::chrono::hours{24 * 365}};

void check(const IdempotentOptions& options) {
  if (options.ask_again <= milliseconds::zero()) {
    throw MisuseError("IdempotentOptions::ask_again is " +
                      std::to_string(options.ask_again.count()) + " ms, it must be positive");
  }
  if (options.finish_within < milliseconds::zero()) {
    throw MisuseError("IdempotentOptions::finish_within is " +
                      std::to_string(options.finish_within.count()) +
                      " ms, it must not be negative");
  }
}

std::string current_error() { return internal::outcome_of(std::current_exception()).error(); }

class IdempotentListener final : public internal::GroupListener {
 public:
  IdempotentListener(std::shared_ptr<ConsumptionTracker> tracker, std::string group,
                     std::shared_ptr<Listener> inner, IdempotentOptions options)
      : tracker_(std::move(tracker)),
        group_(std::move(group)),
        inner_(std::move(inner)),
        options_(std::move(options)) {}

  const std::string& group() const noexcept override { return group_; }
  const void* records() const noexcept override { return tracker_.get(); }

  Outcome on_event(const Event& event, const Delivery& delivery) override {
    ConsumptionTracker::Start start;
    try {
      start = tracker_->start(group_, event.id());
    } catch (const MisuseError&) {
      throw;
    } catch (...) {
      // Whatever is wrong with the tracker, the event is not to blame for it: a wrong
      // password must not send events to the dead ones.
      return Outcome::unavailable("the tracker of group " + quote(group_) +
                                  " cannot be used: " + current_error());
    }
    switch (start.state) {
      case ConsumptionTracker::State::done:
        return Outcome::done();
      case ConsumptionTracker::State::in_progress:
        return Outcome::retry_after(
            std::clamp(start.expires_in, milliseconds{1}, options_.ask_again));
      case ConsumptionTracker::State::started:
        break;
    }
    return consume(event, delivery, start.fence);
  }

 private:
  Outcome consume(const Event& event, const Delivery& delivery, std::int64_t fence) {
    Outcome outcome = call(event, delivery, fence);
    if (outcome.kind() == Outcome::Kind::done) {
      finish(event, fence, delivery.stop);
    } else {
      abandon(event, fence);
    }
    return outcome;
  }

  Outcome call(const Event& event, const Delivery& delivery, std::int64_t fence) {
    try {
      return inner_->on_event(event, delivery);
    } catch (...) {
      abandon(event, fence);
      throw;
    }
  }

  // The effect has happened: nothing that goes wrong here may make it happen again.
  void finish(const Event& event, std::int64_t fence, const std::stop_token& stop) {
    const auto deadline = std::chrono::steady_clock::now() + options_.finish_within;
    for (milliseconds wait = kFirstPause;; wait = std::min(2 * wait, kLongestPause)) {
      std::string error;
      bool may_pass = false;
      try {
        if (!tracker_->finish(group_, event.id(), fence)) {
          log(LogLevel::warning, "consumption_overtaken", event,
              "took longer than its lease, and another consumer has begun: the effect may have "
              "happened twice; make the lease longer than the slowest effect");
        }
        return;
      } catch (const RetryableError& e) {
        error = e.what();
        may_pass = true;
      } catch (...) {
        error = current_error();
      }
      const bool in_time = std::chrono::steady_clock::now() + wait <= deadline;
      if (!may_pass || !in_time || sleep_for(wait, stop)) {
        log(LogLevel::error, "consumption_not_recorded", event,
            "had its effect, but that could not be recorded: if the event comes again after the "
            "lease, the effect is repeated: " +
                error);
        return;
      }
    }
  }

  // If it fails, others wait until the lease is over: no harm is done.
  void abandon(const Event& event, std::int64_t fence) {
    try {
      if (!tracker_->abandon(group_, event.id(), fence)) {
        log(LogLevel::warning, "consumption_overtaken", event,
            "failed after its lease had expired: another consumer has begun; make the "
            "lease longer than the slowest effect");
      }
    } catch (...) {
      log(LogLevel::warning, "consumption_not_recorded", event,
          "failed, but that could not be recorded: it is not begun again before its lease "
          "expires: " +
              current_error());
    }
  }

  void log(LogLevel level, std::string_view code, const Event& event,
           const std::string& what) const {
    options_.log({level,
                  code,
                  "event " + event.id() + " in group " + quote(group_) + " " + what,
                  {{"event", event.id()}, {"group", group_}}});
  }

  // Constant after construction.
  const std::shared_ptr<ConsumptionTracker> tracker_;
  const std::string group_;
  const std::shared_ptr<Listener> inner_;
  const IdempotentOptions options_;
};

}  // namespace

std::shared_ptr<Listener> idempotent_listener(std::shared_ptr<ConsumptionTracker> tracker,
                                              std::string group, std::shared_ptr<Listener> inner,
                                              IdempotentOptions options) {
  if (!tracker) throw MisuseError("the tracker of an idempotent listener is null");
  if (!inner) throw MisuseError("the listener to be made idempotent is null");
  internal::check_group(group);
  check(options);
  options.finish_within = std::min(options.finish_within, kLongestFinish);
  if (!options.log) options.log = standard_error_log();
  return std::make_shared<IdempotentListener>(std::move(tracker), std::move(group),
                                              std::move(inner), std::move(options));
}

}  // namespace outbox
