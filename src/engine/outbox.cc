#include "outbox/outbox.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/mutex.h"
#include "engine/commit_hook.h"
#include "engine/core.h"
#include "engine/driver.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How many lanes behind DEAD heads are looked at again in one sweep.
constexpr std::size_t kRecheckAtOnce = 20;

// Other processes may finish events without a word to this one.
constexpr milliseconds kIdleCheck{20};

Options checked(Options options, const Store& store) {
  const auto refuse = [](const std::string& what) { throw MisuseError("outbox: " + what); };
  if (options.row_claims && options.ordering != Ordering::none) {
    refuse("row claims keep no order per aggregate: set ordering = Ordering::none with them");
  }
  if (options.row_claims && options.lock_timeout.count() <= 0) {
    refuse("lock_timeout must be positive, got " + std::to_string(options.lock_timeout.count()) +
           " ms");
  }
  if (options.skip_recent.count() > 0 && options.ordering != Ordering::none) {
    refuse(
        "skip_recent would let younger events of an aggregate pass: set ordering = "
        "Ordering::none with it");
  }
  if (options.on_dead != OnDead::skip && options.ordering == Ordering::none) {
    refuse("on_dead = block or park needs an order: without one no event waits for another");
  }
  if (options.lease < milliseconds{100}) {
    refuse("the lease must be at least 100 ms, got " + std::to_string(options.lease.count()) +
           " ms");
  }
  if (!options.log) options.log = standard_error_log();
  if (options.row_claims && !store.capabilities().row_claims) {
    options.log(LogLevel::warning, store.description() +
                                       " knows no row claims: this instance owns whole shards "
                                       "instead");
    options.row_claims = false;
  }
  return options;
}

InstanceOptions instance_options(const Options& options) {
  return {.name = options.name,
          .capacity = options.hot_capacity + options.cold_capacity,
          .lease = options.lease,
          .row_claims = options.row_claims,
          .lock_timeout = options.lock_timeout};
}

DispatcherOptions dispatcher_options(const Options& options, const Clock& clock) {
  DispatcherOptions result{.workers = options.workers,
                           .hot_capacity = options.hot_capacity,
                           .cold_capacity = options.cold_capacity,
                           .capacity_bytes = options.capacity_bytes,
                           .ordering = options.ordering,
                           .on_dead = options.on_dead,
                           .retry = options.retry,
                           .max_attempts = options.max_attempts,
                           .interceptors = options.interceptors,
                           .on_dead_event = options.on_dead_event,
                           .drain_timeout = options.drain_timeout,
                           .hung_after = options.hung_after,
                           .pause = options.pause,
                           .max_pause = options.max_pause,
                           .log = options.log,
                           .metrics = options.metrics,
                           .clock = &clock};
  if (options.row_claims) result.lock_timeout = options.lock_timeout;
  return result;
}

PollerOptions poller_options(const Options& options, const Clock& clock) {
  return internal::Driver::checked_options({.batch = options.batch,
                                            .interval = options.poll_interval,
                                            .skip_recent = options.skip_recent,
                                            .row_claims = options.row_claims,
                                            .max_deaths_alone = options.max_deaths_alone,
                                            .log = options.log,
                                            .metrics = options.metrics,
                                            .clock = &clock});
}

WriterOptions writer_options(const Options& options, std::shared_ptr<WriterHook> commit_hook,
                             std::function<std::string()> claim_owner) {
  WriterOptions result{
      .hooks = options.hooks, .claim_owner = std::move(claim_owner), .log = options.log};
  result.hooks.push_back(std::move(commit_hook));
  return result;
}

}  // namespace

class Outbox::Impl {
 public:
  Impl(std::shared_ptr<Store> store, Listeners listeners, Options options)
      : store_(std::move(store)),
        options_(checked(std::move(options), *store_)),
        clock_(store_->clock()),
        instance_(store_->join(instance_options(options_))),
        core_(std::make_shared<internal::Core>(
            instance_, std::move(listeners), dispatcher_options(options_, clock_), options_.batch)),
        driver_(std::make_shared<internal::Driver>(
            instance_, *core_, poller_options(options_, clock_),
            internal::Driver::Helpers{.wanted = [core = core_.get()] { core->request_poll(); },
                                      .tick = [core = core_.get()] { return core->tick(); },
                                      .sweep = [this] { sweep(); }})),
        hook_(std::make_shared<internal::CommitHook>(
            core_, driver_, options_.ordering == Ordering::none, clock_, options_.log)),
        writer_(store_, writer_options(options_, hook_, claim_owner())) {
    internal::Driver* driver = driver_.get();
    core_->set_events({.read = [driver] { return driver->read(); },
                       .row_due = [driver](Clock::Steady due) { driver->row_due(due); },
                       .timer_changed = [driver] { driver->timer_changed(); },
                       .fenced = [driver] { driver->fenced(); },
                       .emptied = [driver] { driver->emptied(); },
                       .left_behind = [driver](const RowRef& row) { driver->left_behind(row); }});
  }

  void start() {
    check_process();
    MutexLock lock(mutex_);
    if (closed_) throw MisuseError("outbox: start() after close(); make a new one");
    if (std::exchange(started_, true)) throw MisuseError("outbox: start() was called twice");
    core_->start();
    driver_->start();
    hook_->set_active(true);
    watch_ = store_->watch([driver = driver_.get()] { driver->committed(); });
    if (!watch_ && store_->capabilities().many_processes) {
      options_.log(LogLevel::info, "no news of commits by other processes from " +
                                       store_->description() + ": they are found by polling");
    }
  }

  Writer& writer() { return writer_; }

  bool wait_idle(milliseconds timeout) {
    check_process();
    const auto deadline = steady_clock::now() + timeout;
    for (;;) {
      if (core_->in_flight() == 0 && !store_->has_pending()) return true;
      const auto now = steady_clock::now();
      if (now >= deadline) return false;
      const auto until = std::min(deadline, now + kIdleCheck);
      if (core_->wait_empty(until)) core_->wait_change(until);
    }
  }

  void wake() {
    check_process();
    core_->recheck_blocked(kRecheckAtOnce);
    driver_->timer_changed();
    driver_->look_everywhere();
  }

  bool owner() const { return driver_->owner(); }
  std::size_t in_flight() const { return core_->in_flight(); }

  void close() {
    check_process();
    {
      MutexLock lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    hook_->set_active(false);
    watch_.reset();
    // The keeper goes on renewing while the workers finish what they have.
    const std::vector<RowRef> unstarted = core_->close();
    driver_->stop();
    try {
      if (options_.row_claims && !unstarted.empty()) instance_->unclaim(unstarted);
      instance_->leave();
    } catch (const std::exception& error) {
      options_.log(LogLevel::warning,
                   std::string("closing: cannot hand over what was owned: ") + error.what());
    }
  }

  bool in_this_process() const { return pid_ == getpid(); }

 private:
  void check_process() const {
    if (!in_this_process()) {
      throw MisuseError("this outbox belongs to the parent process: make a new one after fork()");
    }
  }

  std::function<std::string()> claim_owner() {
    if (!options_.row_claims) return {};
    // Only rows that this instance will be told of may be claimed for it.
    return [this] { return owner() ? instance_->owner() : std::string(); };
  }

  void sweep() {
    core_->recheck_blocked(kRecheckAtOnce);
    if (!options_.metrics) return;
    try {
      const Counts counts = store_->counts();
      options_.metrics->set(Gauge::pending, static_cast<double>(counts.pending));
      options_.metrics->set(Gauge::dead_events, static_cast<double>(counts.dead));
    } catch (const std::exception& error) {
      options_.log(LogLevel::warning, std::string("cannot count events: ") + error.what());
    }
  }

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const Options options_;
  const Clock& clock_;
  const int pid_ = getpid();
  const std::shared_ptr<Instance> instance_;
  const std::shared_ptr<internal::Core> core_;
  const std::shared_ptr<internal::Driver> driver_;
  const std::shared_ptr<internal::CommitHook> hook_;
  Writer writer_;

  Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Watch> watch_;
};

Outbox::Outbox(std::shared_ptr<Store> store, Listeners listeners, Options options) {
  if (!store) throw MisuseError("outbox: the store is null");
  impl_ = std::make_unique<Impl>(std::move(store), std::move(listeners), std::move(options));
}

Outbox::~Outbox() {
  // The threads are the parent's: there is nothing here to end.
  if (!impl_->in_this_process()) static_cast<void>(impl_.release());
  if (impl_) impl_->close();
}

void Outbox::start() { impl_->start(); }
Writer& Outbox::writer() { return impl_->writer(); }
bool Outbox::wait_idle(milliseconds timeout) { return impl_->wait_idle(timeout); }
void Outbox::wake() { impl_->wake(); }
bool Outbox::owner() const { return impl_->owner(); }
std::size_t Outbox::in_flight() const { return impl_->in_flight(); }
void Outbox::close() { impl_->close(); }

}  // namespace outbox
