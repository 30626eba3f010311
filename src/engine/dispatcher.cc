#include "outbox/spi/dispatcher.h"

#include <unistd.h>

#include <utility>

#include "engine/core.h"
#include "engine/lease_keeper.h"
#include "outbox/error.h"

namespace outbox {
namespace {

// How many rows a batch of the poller brings at most is not known here; the
// queue uses it only to judge when a worker should read, which none does.
constexpr std::size_t kNoBatch = 1;

}  // namespace

// A core whose timers are driven by a keeper, and whose lease is renewed by
// it, too: its updates are fenced like any other.
class Dispatcher::Impl {
 public:
  Impl(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options)
      : instance_(std::move(instance)),
        clock_(options.clock != nullptr ? *options.clock : host_clock()),
        log_(options.log ? options.log : standard_error_log()),
        core_(std::make_shared<internal::Core>(instance_, std::move(listeners), std::move(options),
                                               kNoBatch)),
        keeper_(make_lease_keeper(instance_)) {
    core_->set_events({.timer_changed = [this] { keeper_->wake(); },
                       .fenced = [this](std::int64_t /*epoch*/) { keeper_->wake(); }});
  }

  void start() {
    check_process();
    MutexLock lock(mutex_);
    if (closed_) throw MisuseError("dispatcher: start() after close(); make a new one");
    if (std::exchange(started_, true)) throw MisuseError("dispatcher: start() was called twice");
    keeper_->renew();
    core_->start();
    keeper_->start();
  }

  void close() {
    check_process();
    if (core_->on_own_thread() || keeper_->on_own_thread()) {
      throw MisuseError(
          "dispatcher: close() in a listener or another callback of this dispatcher would wait for "
          "itself: call it on a thread of your own");
    }
    {
      MutexLock lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    // The keeper goes on renewing while the workers finish what they have.
    core_->close();
    keeper_->stop();
  }

  internal::Core& core() {
    check_process();
    return *core_;
  }
  std::shared_ptr<PollHandler> poll_handler() {
    MutexLock lock(mutex_);
    if (started_) throw MisuseError("dispatcher: poll_handler() must be called before start()");
    keeper_ = make_lease_keeper(nullptr);
    return core_;
  }
  bool in_this_process() const { return pid_ == getpid(); }

 private:
  std::unique_ptr<internal::LeaseKeeper> make_lease_keeper(std::shared_ptr<Instance> instance) {
    return std::make_unique<internal::LeaseKeeper>(
        std::move(instance),
        internal::LeaseKeeper::Callbacks{
            .renewed = [this](const Lease& lease,
                              Clock::Steady valid_until) { core_->on_lease(lease, valid_until); },
            .expired = [this] { core_->on_lease({}, Clock::Steady::min()); },
            .stalled = [this] { return core_->stalled(); },
            .able = [this] { return core_->able(); },
            .tick = [this] { return core_->tick(); }},
        clock_, log_);
  }

  void check_process() const {
    if (!in_this_process()) {
      throw MisuseError(
          "this dispatcher belongs to the parent process: make a new one after fork()");
    }
  }

  const std::shared_ptr<Instance> instance_;
  const Clock& clock_;
  const Logger log_;
  const int pid_ = getpid();
  const std::shared_ptr<internal::Core> core_;
  Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::unique_ptr<internal::LeaseKeeper> keeper_;
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
bool Dispatcher::enqueue_hot(Row row) { return impl_->core().enqueue(std::move(row), true); }
bool Dispatcher::enqueue_cold(Row row) { return impl_->core().enqueue(std::move(row), false); }
std::size_t Dispatcher::hot_room() const { return impl_->core().hot_room(); }
std::size_t Dispatcher::cold_room() const { return impl_->core().cold_room(); }
std::size_t Dispatcher::in_flight() const { return impl_->core().unacknowledged(); }
std::shared_ptr<PollHandler> Dispatcher::poll_handler() { return impl_->poll_handler(); }
void Dispatcher::close() { impl_->close(); }

}  // namespace outbox
