#include "outbox/outbox.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/bounded.h"
#include "base/mutex.h"
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
  Impl(std::shared_ptr<Store> store, Listeners listeners, Options options)
      : store_(std::move(store)),
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

  void start() {
    check_process();
    const MutexLock one_at_a_time(lifecycle_);
    {
      MutexLock lock(mutex_);
      if (closed_) throw MisuseError("outbox: start() after close(); make a new one");
      if (std::exchange(started_, true)) throw MisuseError("outbox: start() was called twice");
    }
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
    if (counting_) counting_->close();
    if (engine_) engine_->close(drain);
  }

  Writer& writer() { return writer_; }

  bool wait_idle(milliseconds timeout) {
    check_thread("wait_idle()");
    internal::Engine& engine = this->engine();
    const auto deadline = SteadyClock::now() + internal::bounded(timeout);
    for (;;) {
      if (engine.unacknowledged() == 0 && !store_->has_pending()) return true;
      const auto now = SteadyClock::now();
      if (now >= deadline) return false;
      const auto until = std::min(deadline, now + kIdleCheck);
      if (engine.wait_empty(until)) engine.wait_change(until);
    }
  }

  internal::Engine& engine() const {
    check_process();
    if (!engine_) {
      throw MisuseError("outbox: this one only writes (Mode::writer_only): it delivers nothing");
    }
    return *engine_;
  }
  bool owner() const { return engine_ && engine_->poller()->owner(); }
  std::size_t in_flight() const { return engine_ ? engine_->unacknowledged() : 0; }

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
    return health;
  }

  bool in_this_process() const { return pid_ == getpid(); }

 private:
  void check_thread(const std::string& call) const {
    const bool own =
        engine_ && (engine_->on_own_thread() || (counting_ && counting_->on_own_thread()));
    if (!own) return;
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
    options_.metrics->set(Gauge::dead_events, static_cast<double>(counts.dead));
    const auto lag = clock.now() - counts.oldest_pending.value_or(clock.now());
    options_.metrics->set(Gauge::oldest_lag, std::chrono::duration<double>(lag).count());
  }

  // Constant after construction.
  const std::shared_ptr<Store> store_;
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

  std::chrono::steady_clock::time_point next_count_{};  // used by count_events() only
  std::optional<internal::Schedule> counting_;          // last: its thread uses the others
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
void Outbox::wake() { impl_->engine().wake(); }
bool Outbox::owner() const { return impl_->owner(); }
Health Outbox::health() const { return impl_->health(); }
std::size_t Outbox::in_flight() const { return impl_->in_flight(); }
void Outbox::close() { impl_->close(); }
void Outbox::close(milliseconds drain) { impl_->close(drain); }

void Outbox::pause() { impl_->engine().pause(true); }
void Outbox::resume() { impl_->engine().pause(false); }
void Outbox::pause(const Name& aggregate_type, const Name& type) {
  impl_->engine().pause(aggregate_type.str(), type.str(), true);
}
void Outbox::resume(const Name& aggregate_type, const Name& type) {
  impl_->engine().pause(aggregate_type.str(), type.str(), false);
}

}  // namespace outbox
