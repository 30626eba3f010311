#include "outbox/outbox.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "engine/facade_options.h"
#include "engine/stack.h"

namespace outbox {

using std::chrono::milliseconds;

class Outbox::Impl {
 public:
  Impl(std::shared_ptr<Store> store, Listeners listeners, Options options)
      : options_(internal::checked(std::move(options), listeners, *store)),
        stack_(options_.mode == Mode::writer_only
                   ? nullptr
                   : std::make_unique<internal::Stack>(store, std::move(listeners), options_)),
        writer_(store, writer_options()) {
    if (options_.purge) purger_.emplace(store, *options_.purge);
    if (options_.replay_dead) replay_.emplace(store, *options_.replay_dead);
  }

  void start() {
    check_process();
    const MutexLock one_at_a_time(lifecycle_);
    {
      MutexLock lock(mutex_);
      if (closed_) throw MisuseError("outbox: start() after close(); make a new one");
      if (std::exchange(started_, true)) throw MisuseError("outbox: start() was called twice");
    }
    if (stack_) stack_->start();
    if (purger_) purger_->start();
    if (replay_) replay_->start();
  }

  // Nullopt: as the options say.
  void close(std::optional<milliseconds> drain = std::nullopt) {
    check_process();
    check_thread("close()");
    if (drain && drain->count() < 0) {
      throw MisuseError("outbox: close() takes a limit that is not negative, got " +
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
    if (stack_) stack_->close(drain.value_or(options_.timeouts.drain));
  }

  Writer& writer() { return writer_; }

  bool wait_idle(milliseconds timeout) {
    check_thread("wait_idle()");
    return stack().wait_idle(timeout);
  }

  internal::Stack& stack() const {
    check_process();
    if (!stack_) {
      throw MisuseError("outbox: this one only writes (Mode::writer_only): it delivers nothing");
    }
    return *stack_;
  }
  bool owner() const { return stack_ && stack_->owner(); }
  std::size_t in_flight() const { return stack_ ? stack_->in_flight() : 0; }

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
    if (stack_) stack_->examine(health);
    return health;
  }

  bool in_this_process() const { return pid_ == getpid(); }

 private:
  void check_thread(const std::string& call) const {
    if (!stack_ || !stack_->on_own_thread()) return;
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
    if (stack_) result.hooks.push_back(stack_->hook());
    if (options_.row_claims) {
      // Only rows that this instance will be told of may be claimed for it.
      result.claim_owner = [this] { return owner() ? stack_->owner_name() : std::string(); };
    }
    return result;
  }

  // Constant after construction.
  const Options options_;
  const int pid_ = getpid();
  const std::unique_ptr<internal::Stack> stack_;  // null: it only writes
  Writer writer_;
  std::optional<Purger> purger_;
  std::optional<ScheduledReplay> replay_;

  Mutex lifecycle_;  // held by start() and close(); before mutex_
  mutable Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
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
void Outbox::wake() { impl_->stack().wake(); }
bool Outbox::owner() const { return impl_->owner(); }
Health Outbox::health() const { return impl_->health(); }
std::size_t Outbox::in_flight() const { return impl_->in_flight(); }
void Outbox::close() { impl_->close(); }
void Outbox::close(milliseconds drain) { impl_->close(drain); }

void Outbox::pause() { impl_->stack().pause(true); }
void Outbox::resume() { impl_->stack().pause(false); }
void Outbox::pause(const Name& aggregate_type, const Name& type) {
  impl_->stack().pause(aggregate_type, type, true);
}
void Outbox::resume(const Name& aggregate_type, const Name& type) {
  impl_->stack().pause(aggregate_type, type, false);
}

}  // namespace outbox
