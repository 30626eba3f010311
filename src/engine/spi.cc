// The parts of outbox/spi for those who drive an engine by hand: Dispatcher, Poller, tracker.
#include <unistd.h>

#include <exception>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/own_thread.h"
#include "engine/engine.h"
#include "engine/engine_options.h"
#include "engine/intake.h"
#include "engine/poller.h"
#include "engine/transaction.h"
#include "outbox/error.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/poller.h"

namespace outbox {
namespace {

class TimedTracker final : public InFlightTracker {
 public:
  TimedTracker(std::chrono::milliseconds time_to_live, const Clock& clock)
      : time_to_live_(time_to_live), clock_(clock) {}

  bool try_acquire(std::string_view event_id) override {
    const Clock::Steady now = clock_.steady();
    MutexLock lock(mutex_);
    const auto [entry, inserted] = since_.try_emplace(std::string(event_id), now);
    if (inserted) return true;
    if (now - entry->second < time_to_live_) return false;
    entry->second = now;
    return true;
  }

  void release(std::string_view event_id) override {
    MutexLock lock(mutex_);
    since_.erase(std::string(event_id));
  }

 private:
  const std::chrono::milliseconds time_to_live_;
  const Clock& clock_;
  Mutex mutex_;
  std::unordered_map<std::string, Clock::Steady> since_ OUTBOX_GUARDED_BY(mutex_);
};

// A handler that knows nothing of leases and lanes.
class HandlerIntake final : public internal::Intake {
 public:
  explicit HandlerIntake(std::shared_ptr<PollHandler> handler) : handler_(std::move(handler)) {}

  std::size_t room() override { return handler_->room(); }
  std::size_t room_bytes() override { return handler_->room_bytes(); }
  std::size_t in_flight() override { return handler_->in_flight(); }
  bool handle(Row row) override { return handler_->handle(std::move(row)); }

 private:
  const std::shared_ptr<PollHandler> handler_;
};

// That of a Dispatcher is more than a handler.
std::shared_ptr<internal::Intake> intake_of(std::shared_ptr<PollHandler> handler) {
  auto intake = std::dynamic_pointer_cast<internal::Intake>(handler);
  return intake ? intake : std::make_shared<HandlerIntake>(std::move(handler));
}

}  // namespace

std::shared_ptr<InFlightTracker> timed_tracker(std::chrono::milliseconds time_to_live,
                                               const Clock& clock) {
  if (time_to_live.count() <= 0) {
    throw MisuseError("the tracker's time to live must be positive, got " +
                      std::to_string(time_to_live.count()) + " ms");
  }
  return std::make_shared<TimedTracker>(time_to_live, clock);
}

// --- Dispatcher ---

class Dispatcher::Impl {
 public:
  Impl(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options)
      : engine_(std::make_shared<internal::Engine>(std::move(instance), std::move(listeners),
                                                   std::move(options))) {}

  void start() {
    check_process();
    MutexLock lock(mutex_);
    if (closed_) throw MisuseError("dispatcher: start() after close(); make a new one");
    if (std::exchange(started_, true)) throw MisuseError("dispatcher: start() was called twice");
    engine_->start();
  }

  void close() {
    check_process();
    if (engine_->on_own_thread()) {
      throw MisuseError(
          "dispatcher: close() in a listener or another callback of this dispatcher would wait for "
          "itself: call it on a thread of your own");
    }
    {
      MutexLock lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    engine_->close();
  }

  internal::Engine& engine() {
    check_process();
    return *engine_;
  }
  std::shared_ptr<PollHandler> poll_handler() {
    MutexLock lock(mutex_);
    if (started_) throw MisuseError("dispatcher: poll_handler() must be called before start()");
    engine_->leave_lease_to_others();
    return engine_;
  }
  std::shared_ptr<WriterHook> writer_hook(std::function<void()> wake) {
    check_process();
    return std::make_shared<internal::CommitHook>(engine_, std::move(wake));
  }
  bool in_this_process() const { return pid_ == getpid(); }

 private:
  void check_process() const {
    if (!in_this_process()) {
      throw MisuseError(
          "this dispatcher belongs to the parent process: make a new one after fork()");
    }
  }

  const int pid_ = getpid();
  const std::shared_ptr<internal::Engine> engine_;
  Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
};

Dispatcher::Dispatcher(std::shared_ptr<Instance> instance, Listeners listeners,
                       DispatcherOptions options) {
  if (!instance) throw MisuseError("dispatcher: the instance is null");
  if (listeners.empty()) {
    throw MisuseError(
        "dispatcher: there is no listener, so every event would be DEAD: add the listeners first");
  }
  impl_ = std::make_unique<Impl>(std::move(instance), std::move(listeners), std::move(options));
}

Dispatcher::~Dispatcher() {
  // The threads are the parent's: there is nothing here to end.
  if (!impl_->in_this_process()) static_cast<void>(impl_.release());
  if (impl_) impl_->close();
}

void Dispatcher::start() { impl_->start(); }
bool Dispatcher::enqueue_hot(Row row) { return impl_->engine().enqueue(std::move(row), true); }
bool Dispatcher::enqueue_cold(Row row) { return impl_->engine().enqueue(std::move(row), false); }
std::size_t Dispatcher::hot_room() const { return impl_->engine().hot_room(); }
std::size_t Dispatcher::cold_room() const { return impl_->engine().cold_room(); }
std::size_t Dispatcher::in_flight() const { return impl_->engine().unacknowledged(); }
std::shared_ptr<PollHandler> Dispatcher::poll_handler() { return impl_->poll_handler(); }
std::shared_ptr<WriterHook> Dispatcher::writer_hook(std::function<void()> wake) {
  return impl_->writer_hook(std::move(wake));
}
void Dispatcher::close() { impl_->close(); }

// --- Poller ---

class Poller::Impl {
 public:
  Impl(std::shared_ptr<Instance> instance, std::shared_ptr<PollHandler> handler,
       PollerOptions options)
      : instance_(std::move(instance)),
        intake_(intake_of(std::move(handler))),
        log_(options.log),
        poller_(instance_, *intake_, std::move(options)) {}

  void start() {
    check_process();
    MutexLock lock(mutex_);
    if (closed_) throw MisuseError("poller: start() after close(); make a new one");
    if (std::exchange(started_, true)) throw MisuseError("poller: start() was called twice");
    poller_.start();
  }

  bool poll() {
    check_process();
    check_thread("poll()");
    const internal::OwnThread own(this);
    return poller_.read_now();
  }

  void wake() { poller_.look_everywhere(); }

  void close() {
    check_process();
    check_thread("close()");
    {
      MutexLock lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    poller_.stop();
    try {
      instance_->leave();
    } catch (const std::exception& error) {
      log_({LogLevel::warning,
            "lease_not_released",
            std::string("closing: cannot release the lease: ") + error.what(),
            {{"error", error.what()}}});
    }
  }

  bool in_this_process() const { return pid_ == getpid(); }

 private:
  // One that polls, for this poller.
  void check_thread(const std::string& call) const {
    if (!poller_.on_own_thread() && !internal::OwnThread::works_for(this)) return;
    throw MisuseError("poller: " + call +
                      " in a call of its handler would wait for itself: call it on another thread");
  }

  void check_process() const {
    if (!in_this_process()) {
      throw MisuseError("this poller belongs to the parent process: make a new one after fork()");
    }
  }

  const std::shared_ptr<Instance> instance_;
  const std::shared_ptr<internal::Intake> intake_;
  const Logger log_;
  const int pid_ = getpid();
  internal::Poller poller_;
  Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
};

Poller::Poller(std::shared_ptr<Instance> instance, std::shared_ptr<PollHandler> handler,
               PollerOptions options) {
  if (!instance) throw MisuseError("poller: the instance is null");
  if (!handler) throw MisuseError("poller: the handler is null");
  impl_ = std::make_unique<Impl>(std::move(instance), std::move(handler),
                                 internal::checked(std::move(options)));
}

Poller::~Poller() {
  // The threads are the parent's: there is nothing here to end.
  if (!impl_->in_this_process()) static_cast<void>(impl_.release());
  if (impl_) impl_->close();
}

void Poller::start() { impl_->start(); }
bool Poller::poll() { return impl_->poll(); }
void Poller::wake() { impl_->wake(); }
void Poller::close() { impl_->close(); }
}  // namespace outbox
