#include "engine/stack.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/bounded.h"
#include "base/thread.h"
#include "engine/facade_options.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

// Counting takes at most this part of the time.
constexpr int kCountShare = 100;

// Other processes may finish events without a word to this one.
constexpr milliseconds kIdleCheck{20};

CommitHook::Direct direct_path(const Options& options) {
  if (options.ordering != Ordering::none) return CommitHook::Direct::none;
  return options.row_claims ? CommitHook::Direct::claimed : CommitHook::Direct::all;
}

}  // namespace

Stack::Stack(std::shared_ptr<Store> store, Listeners listeners, const Options& options)
    : store_(std::move(store)),
      options_(options),
      clock_(store_->clock()),
      instance_(store_->join(instance_options(options_))),
      core_(std::make_shared<Core>(instance_, std::move(listeners),
                                   dispatcher_options(options_, clock_), options_.queue.batch)),
      driver_(std::make_shared<Driver>(
          instance_, *core_, poller_options(options_, clock_),
          Driver::Helpers{
              .wanted = [core = core_.get()] { core->request_poll(); },
              .tick = [core = core_.get()] { return core->tick(); },
              .left_behind = [core = core_.get()] { return core->take_left_behind(); }})),
      hook_(std::make_shared<CommitHook>(core_, driver_, direct_path(options_), clock_,
                                         options_.log)),
      counting_({.what = "counting events",
                 .thread = "outbox-counts",
                 .interval = options_.poll_interval,
                 .log = options_.log},
                [this](const std::stop_token&) { count_events(); }) {
  Driver* driver = driver_.get();
  core_->set_events(
      {.read = [driver] { return driver->read(); },
       .rows_due = [driver](std::span<const Clock::Steady> due) { driver->rows_due(due); },
       .timer_changed = [driver] { driver->timer_changed(); },
       .fenced = [driver](std::int64_t epoch) { driver->fenced(epoch); },
       .emptied = [driver] { driver->emptied(); }});
}

void Stack::start() {
  core_->start();
  driver_->start();
  hook_->set_active(true);
  if (options_.metrics) counting_.start();
  watch_ = store_->watch([driver = driver_.get()] { driver->committed(); });
  if (!watch_ && store_->capabilities().many_processes) {
    options_.log({LogLevel::info,
                  "commits_not_watched",
                  "no news of commits by other processes from " + store_->description() +
                      ": they are found by polling",
                  {{"store", store_->description()}}});
  }
}

void Stack::close(milliseconds drain) {
  counting_.close();
  hook_->set_active(false);
  watch_.reset();
  // The keeper goes on renewing while the workers finish what they have.
  const std::vector<RowRef> unstarted = core_->close(drain);
  driver_->stop();
  try {
    if (options_.row_claims && !unstarted.empty()) instance_->unclaim(unstarted);
    instance_->leave();
  } catch (const std::exception& error) {
    options_.log({LogLevel::warning,
                  "lease_not_released",
                  std::string("closing: cannot release the lease: ") + error.what(),
                  {{"error", error.what()}}});
  }
}

bool Stack::wait_idle(milliseconds timeout) {
  const auto deadline = SteadyClock::now() + bounded(timeout);
  for (;;) {
    if (core_->unacknowledged() == 0 && !store_->has_pending()) return true;
    const auto now = SteadyClock::now();
    if (now >= deadline) return false;
    const auto until = std::min(deadline, now + kIdleCheck);
    if (core_->wait_empty(until)) core_->wait_change(until);
  }
}

void Stack::wake() {
  driver_->timer_changed();
  driver_->look_everywhere();
}

void Stack::pause(bool on) {
  core_->pause(on);
  options_.log({LogLevel::info, on ? "delivery_paused" : "delivery_resumed",
                on ? "delivery is paused" : "delivery is resumed"});
}

void Stack::pause(const Name& aggregate_type, const Name& type, bool on) {
  core_->pause(aggregate_type.str(), type.str(), on);
  const std::string name = aggregate_type.str() + "/" + type.str();
  options_.log({LogLevel::info,
                on ? "listener_paused" : "listener_resumed",
                "the listener of " + name + (on ? " is paused" : " is resumed"),
                {{"listener", name}}});
  if (!on) wake();
}

void Stack::examine(Health& health) const {
  const auto now = clock_.steady();
  const auto look_at = [&](const Outage& trouble, const std::string& what) {
    const auto report = trouble.report();
    if (!report) return;
    health.ready = false;
    health.reasons.push_back(what + " for " + seconds_text(now - report->since) + ": " +
                             report->what);
  };
  look_at(driver_->renewing(), "the lease could not be renewed");
  look_at(driver_->reading(), "events could not be read");
  look_at(core_->marking(), "events could not be updated");
  look_at(driver_->given_up(), "this instance has given up its lease, and delivers nothing");
  if (!driver_->owner()) health.reasons.emplace_back("standby: this instance owns no events");

  Core::Condition condition = core_->condition();
  for (std::string& note : condition.notes) health.reasons.push_back(std::move(note));
  if (!condition.workers_left) {
    health.live = false;
    health.ready = false;
    health.reasons.emplace_back("every worker is inside a call that does not return");
  }
}

// It grows with the backlog: the longer it takes, the rarer it becomes.
void Stack::count_events() {
  const auto began = SteadyClock::now();
  if (began < next_count_) return;
  const Counts counts = store_->counts();
  next_count_ = began + (SteadyClock::now() - began) * kCountShare;
  options_.metrics->set(Gauge::pending, static_cast<double>(counts.pending));
  options_.metrics->set(Gauge::dead_events, static_cast<double>(counts.dead));
  const auto lag = clock_.now() - counts.oldest_pending.value_or(clock_.now());
  options_.metrics->set(Gauge::oldest_lag, std::chrono::duration<double>(lag).count());
}

}  // namespace outbox::internal
