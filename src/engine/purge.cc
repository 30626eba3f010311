#include "outbox/admin/purge.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/bounded.h"
#include "base/quote.h"
#include "base/schedule.h"
#include "base/thread.h"
#include "base/time_text.h"
#include "outbox/admin/admin.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using std::chrono::seconds;

PurgeOptions checked(PurgeOptions options) {
  const auto refuse = [](const char* option, const std::string& why) {
    throw MisuseError(std::string("PurgeOptions::") + option + " " + why);
  };
  const auto check_retention = [&](const char* option, const std::optional<seconds>& time) {
    if (time && *time < seconds::zero()) {
      refuse(option, "must not be negative, got " + std::to_string(time->count()) + " s");
    }
  };
  check_retention("done_retention", options.done_retention);
  check_retention("dead_retention", options.dead_retention);
  if (options.age && *options.age <= seconds::zero()) {
    refuse("age", "must be positive, got " + std::to_string(options.age->count()) +
                      " s: it removes events whether they were delivered or not");
  }
  if (options.max_lag && *options.max_lag <= seconds::zero()) {
    refuse("max_lag", "must be positive, got " + std::to_string(options.max_lag->count()) + " s");
  }
  if (!options.age && !options.done_retention && !options.dead_retention) {
    refuse("done_retention", "and dead_retention are both absent: there is nothing to purge");
  }
  if (options.batch == 0) refuse("batch", "must be positive, got 0");
  if (options.pause < std::chrono::milliseconds::zero()) {
    refuse("pause", "must not be negative, got " + std::to_string(options.pause.count()) + " ms");
  }
  options.pause = internal::bounded(options.pause);
  if (!options.log) options.log = standard_error_log();
  return options;
}

}  // namespace

class Purger::Impl {
 public:
  Impl(std::shared_ptr<Store> store, PurgeOptions options)
      : store_(std::move(store)),
        options_(std::move(options)),
        schedule_({.what = "purge",
                   .thread = "outbox-purge",
                   .interval = options_.interval,
                   .log = options_.log},
                  [this](const std::stop_token& stop) { round(stop); }) {}

  Purged run(const std::stop_token& stop) {
    if (options_.max_lag) stop_lagging(*options_.max_lag);
    Purged purged;
    for_each_part(purged, [&](Purgeable what, Time before) { return remove(what, before, stop); });
    return purged;
  }

  Purged preview() {
    Purged purged;
    for_each_part(purged, [&](Purgeable what, Time before) {
      return store_->admin().count_purgeable(what, before);
    });
    return purged;
  }

  internal::Schedule& schedule() { return schedule_; }

 private:
  // Kept longer than time goes back: nothing is that old.
  static Time before(Time now, seconds age) {
    return now - std::min(age, std::chrono::floor<seconds>(now - kEarliestTime));
  }

  void stop_lagging(seconds limit) {
    const Time oldest = before(store_->clock().now(), limit);
    for (const std::string& name : store_->admin().stop_lagging_subscriptions(oldest)) {
      options_.log({LogLevel::error,
                    "subscription_stopped",
                    "the subscription " + quote(name) + " (" + store_->description() +
                        ") is stopped: it has not finished an event for more than " +
                        std::to_string(limit.count()) +
                        " s (max_lag); `outbox subscriptions restart` lets it begin again",
                    {{"subscription", name}, {"max_lag_s", limit.count()}}});
    }
  }

  template <class Act>
  void for_each_part(Purged& purged, Act act) {
    const Time now = store_->clock().now();
    const auto part = [&](Purgeable what, const std::optional<seconds>& keep, std::int64_t& rows) {
      if (keep) rows = act(what, before(now, *keep));
    };
    if (options_.age) {
      part(Purgeable::any_age, options_.age, purged.aged);
      return;
    }
    part(Purgeable::done, options_.done_retention, purged.done);
    part(Purgeable::dead, options_.dead_retention, purged.dead);
  }

  std::int64_t remove(Purgeable what, Time before, const std::stop_token& stop) {
    std::int64_t removed = 0;
    Changed step{.more = true};
    while (step.more && !stop.stop_requested()) {
      step = store_->admin().purge(what, before, step.through, options_.batch, options_.archive);
      removed += step.rows;
      if (step.more && sleep_for(options_.pause, stop)) break;
    }
    return removed;
  }

  void round(const std::stop_token& stop) {
    const Purged purged = run(stop);
    if (purged.total() == 0) return;
    options_.log({LogLevel::info,
                  "purged",
                  std::string("purge: ") + (options_.archive ? "archived " : "removed ") +
                      (options_.age ? std::to_string(purged.aged) + " old events"
                                    : std::to_string(purged.done) + " DONE and " +
                                          std::to_string(purged.dead) + " DEAD events"),
                  {{"done", purged.done}, {"dead", purged.dead}, {"aged", purged.aged}}});
  }

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const PurgeOptions options_;

  internal::Schedule schedule_;  // last: its thread uses the others
};

Purger::Purger(std::shared_ptr<Store> store, PurgeOptions options) {
  if (!store) throw MisuseError("purger: the store is null");
  if (options.max_lag && !store->capabilities().subscriptions) {
    throw MisuseError("PurgeOptions::max_lag is for subscriptions, and the " +
                      store->description() + " has none");
  }
  impl_ = std::make_unique<Impl>(std::move(store), checked(std::move(options)));
}

Purger::~Purger() {
  // The thread is the parent's: there is nothing here to end.
  if (!impl_->schedule().in_this_process()) static_cast<void>(impl_.release());
}

Purged Purger::run_once(std::stop_token stop) { return impl_->run(stop); }
Purged Purger::preview() { return impl_->preview(); }
void Purger::start() { impl_->schedule().start(); }
void Purger::close() { impl_->schedule().close(); }

}  // namespace outbox
