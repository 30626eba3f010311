#include "outbox/outbox.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bounded.h"
#include "base/mutex.h"
#include "base/quote.h"
#include "base/schedule.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/engine_options.h"
#include "engine/one_shard.h"
#include "engine/transaction.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

// Counting takes at most this part of the time.
constexpr int kCountShare = 100;

// Other processes may finish events without a word to this one.
constexpr milliseconds kIdleCheck{20};

std::shared_ptr<Instance> joined(Store& store, const Options& options) {
  std::shared_ptr<Instance> instance = store.join(internal::instance_options(options));
  const int shards = store.capabilities().shards;
  if (options.mode != Mode::ordered || shards == 1) return instance;
  return internal::as_one_shard(std::move(instance), shards);
}

std::string prefix_of(const std::string& subscription) {
  return "subscription " + quote(subscription) + ": ";
}

Logger named(const Logger& log, const std::string& subscription) {
  return [log, subscription](const LogRecord& record) {
    const std::string message = prefix_of(subscription) + std::string(record.message);
    std::vector<LogField> fields(record.fields.begin(), record.fields.end());
    fields.emplace_back("subscription", subscription);
    LogRecord told = record;
    told.message = message;
    told.fields = fields;
    log(told);
  };
}

// Of an outbox without listeners of its own.
Options for_subscriptions(Options options) {
  if (options.purge && options.purge->age && options.mode != Mode::writer_only) {
    throw MisuseError(
        "outbox: a purge by age removes events whether they were delivered or not: set "
        "done_retention and dead_retention instead");
  }
  options.mode = Mode::writer_only;
  return options;
}

std::shared_ptr<internal::Engine> engine_of(Store& store, Listeners listeners,
                                            const Options& options) {
  if (options.mode == Mode::writer_only) return nullptr;
  const Clock& clock = store.clock();
  return std::make_shared<internal::Engine>(joined(store, options), std::move(listeners),
                                            internal::dispatcher_options(options, clock),
                                            internal::poller_options(options, clock));
}

}  // namespace

class Outbox::Impl {
 public:
  // By default it delivers, if at all, to its listeners alone.
  Impl(std::shared_ptr<Store> store, Listeners listeners, Options options,
       bool for_subscriptions = false)
      : store_(std::move(store)),
        for_subscriptions_(for_subscriptions),
        options_(internal::checked(std::move(options), listeners, *store_)),
        engine_(engine_of(*store_, std::move(listeners), options_)),
        writer_(store_, writer_options()) {
    if (options_.purge) purger_.emplace(store_, *options_.purge);
    if (options_.replay_dead) replay_.emplace(store_, *options_.replay_dead);
    if (!engine_ || !options_.metrics) return;
    counting_.emplace(internal::ScheduleOptions{.what = "counting events",
                                                .thread = "outbox-counts",
                                                .interval = options_.poll_interval,
                                                .log = options_.log},
                      [this](const std::stop_token&) { count_events(); });
  }

  void subscribe(const std::string& name, Listeners listeners, Options options) {
    check_process();
    check_thread("subscribe()");
    if (!engine_ && !for_subscriptions_) only_writes();
    if (!options.hooks.empty() || options.purge || options.mode == Mode::writer_only) {
      throw MisuseError("outbox: the subscription " + quote(name) +
                        " has options of the whole outbox: hooks, purge and Mode::writer_only");
    }
    if (!options.on_unroutable) options.on_unroutable = OnUnroutable::ignore;
    if (options.name.empty()) options.name = options_.name;
    if (!options.metrics && options_.metrics) {
      options.metrics = options_.metrics->of_subscription(name);
    }
    options.log = named(options.log ? options.log : options_.log, name);

    const MutexLock one_at_a_time(lifecycle_);
    const auto [started, closed] = lifecycle();
    if (closed) throw MisuseError("outbox: subscribe() after close(); make a new one");
    if ((engine_ && name == kDefaultSubscription) || find(name)) {
      throw MisuseError("outbox: the subscription " + quote(name) + " is served here already");
    }
    if (store_->capabilities().subscriptions) {
      options = internal::checked(std::move(options), listeners, *store_);
      internal::checked(internal::dispatcher_options(options, store_->clock()));
      if (engine_) store_->admin().create_subscription(kDefaultSubscription);  // it is in use
      store_->admin().create_subscription(name, options.begin);
    }
    const auto box = std::make_shared<Outbox>(store_->subscription(name), std::move(listeners),
                                              std::move(options));
    if (started) box->start();
    MutexLock lock(mutex_);
    subscriptions_.push_back({name, box});
  }

  void start() {
    check_process();
    const MutexLock one_at_a_time(lifecycle_);
    const std::vector<Subscription> subscriptions = this->subscriptions();
    if (for_subscriptions_ && subscriptions.empty()) {
      throw MisuseError(
          "outbox: start() without listeners and without a subscription: give it "
          "listeners, or call subscribe() first");
    }
    {
      MutexLock lock(mutex_);
      if (closed_) throw MisuseError("outbox: start() after close(); make a new one");
      if (std::exchange(started_, true)) throw MisuseError("outbox: start() was called twice");
    }
    for (const Subscription& one : subscriptions) one.box->start();
    if (engine_) engine_->start();
    if (counting_) counting_->start();
    if (engine_) engine_->watch(*store_);
    if (purger_) purger_->start();
    if (replay_) replay_->start();
  }

  // Nullopt: as the options say.
  void close(std::optional<milliseconds> drain = std::nullopt) {
    check_process();
    check_thread("close()");
    if (drain && drain->count() < 0) {
      throw MisuseError("outbox: close(): the limit must not be negative, got " +
                        std::to_string(drain->count()) + " ms");
    }
    // These refuse to be closed by their own callbacks, before anything is.
    if (replay_) replay_->close();
    if (purger_) purger_->close();
    const MutexLock one_at_a_time(lifecycle_);
    {
      MutexLock lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    // At the same time: the limit is for all of them together.
    std::vector<Thread> closing;
    for (const Subscription& one : subscriptions()) {
      closing.emplace_back([box = one.box, drain] { box->impl_->close(drain); });
    }
    if (counting_) counting_->close();
    if (engine_) engine_->close(drain);
    for (Thread& thread : closing) thread.join();
  }

  Writer& writer() { return writer_; }

  bool wait_idle(milliseconds timeout) {
    check_thread("wait_idle()");
    const auto deadline = SteadyClock::now() + internal::bounded(timeout);
    const std::vector<Impl*> receivers = this->receivers();
    // What one receives may make another one busy again.
    const auto all_idle = [&](std::chrono::steady_clock::time_point until) {
      return std::all_of(receivers.begin(), receivers.end(),
                         [&](Impl* one) { return one->is_idle(until); });
    };
    while (all_idle(deadline)) {
      if (receivers.size() == 1 || all_idle(std::chrono::steady_clock::time_point::min()))
        return true;
    }
    return false;
  }

  void wake() const {
    for (const Impl* one : receivers()) one->engine_->wake();
  }
  void pause(bool on) const {
    for (const Impl* one : receivers()) one->engine_->pause(on);
  }
  void pause(const Name& aggregate_type, const Name& type, bool on) const {
    std::vector<Impl*> receivers = this->receivers();
    const auto listening = std::partition(receivers.begin(), receivers.end(), [&](Impl* one) {
      return one->engine_->listens(aggregate_type.str(), type.str());
    });
    // Without any, the first one says so.
    if (listening != receivers.begin()) receivers.erase(listening, receivers.end());
    for (const Impl* one : receivers) {
      one->engine_->pause(aggregate_type.str(), type.str(), on);
    }
  }

  bool owner() const {
    return (engine_ && engine_->poller()->owner()) || any([](Outbox& box) { return box.owner(); });
  }
  std::size_t in_flight() const {
    std::size_t number = engine_ ? engine_->unacknowledged() : 0;
    for (const Subscription& one : subscriptions()) number += one.box->in_flight();
    return number;
  }

  Health health() const {
    check_process();
    Health health;
    {
      MutexLock lock(mutex_);
      if (!started_ || closed_) {
        health.ready = false;
        health.reasons.emplace_back(closed_ ? "closed" : "not started");
        return health;
      }
    }
    if (engine_) engine_->examine(health);
    for (const Subscription& one : subscriptions()) {
      const Health its = one.box->health();
      health.live = health.live && its.live;
      health.ready = health.ready && its.ready;
      for (const std::string& reason : its.reasons) {
        health.reasons.push_back(prefix_of(one.name) + reason);
      }
    }
    return health;
  }

  bool in_this_process() const { return pid_ == getpid(); }

 private:
  struct Subscription {
    std::string name;
    std::shared_ptr<Outbox> box;  // on the table as the subscription sees it
  };

  [[noreturn]] static void only_writes() {
    throw MisuseError("outbox: this one only writes (Mode::writer_only): it delivers nothing");
  }

  std::vector<Subscription> subscriptions() const {
    MutexLock lock(mutex_);
    return subscriptions_;
  }
  bool find(const std::string& name) const {
    MutexLock lock(mutex_);
    return std::any_of(subscriptions_.begin(), subscriptions_.end(),
                       [&](const Subscription& one) { return one.name == name; });
  }
  template <class Is>
  bool any(const Is& is) const {
    const std::vector<Subscription> all = subscriptions();
    return std::any_of(all.begin(), all.end(),
                       [&](const Subscription& one) { return is(*one.box); });
  }

  // Those with an engine: this one and its subscriptions.
  std::vector<Impl*> receivers() const {
    check_process();
    std::vector<Impl*> receivers;
    if (engine_) receivers.push_back(const_cast<Impl*>(this));
    for (const Subscription& one : subscriptions()) receivers.push_back(one.box->impl_.get());
    if (receivers.empty()) only_writes();
    return receivers;
  }

  std::pair<bool, bool> lifecycle() const {
    MutexLock lock(mutex_);
    return {started_, closed_};
  }

  // Waits for it until then.
  bool is_idle(std::chrono::steady_clock::time_point deadline) {
    for (;;) {
      if (engine_->unacknowledged() == 0 && !store_->has_pending()) return true;
      const auto now = SteadyClock::now();
      if (now >= deadline) return false;
      const auto until = std::min(deadline, now + kIdleCheck);
      if (engine_->wait_empty(until)) engine_->wait_change(until);
    }
  }

  bool on_own_thread() const {
    return (engine_ && engine_->on_own_thread()) || (counting_ && counting_->on_own_thread()) ||
           any([](Outbox& box) { return box.impl_->on_own_thread(); });
  }

  void check_thread(const std::string& call) const {
    if (!on_own_thread()) return;
    throw MisuseError("outbox: " + call +
                      " in a listener or another callback of this outbox would wait for itself: "
                      "call it on a thread of your own");
  }

  void check_process() const {
    if (!in_this_process()) {
      throw MisuseError("this outbox belongs to the parent process: make a new one after fork()");
    }
  }

  WriterOptions writer_options() {
    WriterOptions result{.hooks = options_.hooks, .log = options_.log};
    if (engine_) {
      result.hooks.push_back(std::make_shared<internal::CommitHook>(engine_));
      result.told = [this] { return engine_->told_by_writers(); };
    }
    if (options_.row_claims) {
      // Only rows that this instance will be told of may be claimed for it.
      result.claim_owner = [this] { return owner() ? engine_->owner_name() : std::string(); };
    }
    return result;
  }

  // It grows with the backlog: the longer it takes, the rarer it becomes.
  void count_events() {
    const auto began = SteadyClock::now();
    if (began < next_count_) return;
    const Counts counts = store_->counts();
    next_count_ = began + (SteadyClock::now() - began) * kCountShare;
    const Clock& clock = store_->clock();
    options_.metrics->set(Gauge::pending, static_cast<double>(counts.pending));
    options_.metrics->set(Gauge::pending_bytes, static_cast<double>(counts.pending_bytes));
    options_.metrics->set(Gauge::dead_events, static_cast<double>(counts.dead));
    const auto lag = clock.now() - counts.oldest_pending.value_or(clock.now());
    options_.metrics->set(Gauge::oldest_lag, std::chrono::duration<double>(lag).count());
  }

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const bool for_subscriptions_;  // it has no listeners of its own
  const Options options_;
  const int pid_ = getpid();
  const std::shared_ptr<internal::Engine> engine_;  // null: it only writes
  Writer writer_;
  std::optional<Purger> purger_;
  std::optional<ScheduledReplay> replay_;

  Mutex lifecycle_;  // held by start() and close(); before mutex_
  mutable Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::vector<Subscription> subscriptions_ OUTBOX_GUARDED_BY(mutex_);

  std::chrono::steady_clock::time_point next_count_{};  // used by count_events() only
  std::optional<internal::Schedule> counting_;          // last: its thread uses the others
};

Outbox::Outbox(std::shared_ptr<Store> store, Listeners listeners, Options options) {
  if (!store) throw MisuseError("outbox: the store is null");
  impl_ = std::make_unique<Impl>(std::move(store), std::move(listeners), std::move(options));
}

Outbox::Outbox(std::shared_ptr<Store> store, Options options) {
  if (!store) throw MisuseError("outbox: the store is null");
  const bool for_subscriptions = options.mode != Mode::writer_only;
  impl_ = std::make_unique<Impl>(std::move(store), Listeners{},
                                 outbox::for_subscriptions(std::move(options)), for_subscriptions);
}

Outbox::~Outbox() {
  // The threads are the parent's: there is nothing here to end.
  if (!impl_->in_this_process()) static_cast<void>(impl_.release());
  if (impl_) impl_->close();
}

void Outbox::subscribe(const std::string& name, Listeners listeners, Options options) {
  impl_->subscribe(name, std::move(listeners), std::move(options));
}
void Outbox::start() { impl_->start(); }
Writer& Outbox::writer() { return impl_->writer(); }
bool Outbox::wait_idle(milliseconds timeout) { return impl_->wait_idle(timeout); }
void Outbox::wake() { impl_->wake(); }
bool Outbox::owner() const { return impl_->owner(); }
Health Outbox::health() const { return impl_->health(); }
std::size_t Outbox::in_flight() const { return impl_->in_flight(); }
void Outbox::close() { impl_->close(); }
void Outbox::close(milliseconds drain) { impl_->close(drain); }

void Outbox::pause() { impl_->pause(true); }
void Outbox::resume() { impl_->pause(false); }
void Outbox::pause(const Name& aggregate_type, const Name& type) {
  impl_->pause(aggregate_type, type, true);
}
void Outbox::resume(const Name& aggregate_type, const Name& type) {
  impl_->pause(aggregate_type, type, false);
}

}  // namespace outbox
