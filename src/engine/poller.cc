#include "outbox/spi/poller.h"

#include <unistd.h>

#include <exception>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "engine/driver.h"
#include "outbox/error.h"

namespace outbox {

std::size_t PollHandler::deliver_isolated(std::vector<Row> rows) {
  for (Row& row : rows) {
    if (!handle(std::move(row))) break;
  }
  return 0;
}

class Poller::Impl {
 public:
  Impl(std::shared_ptr<Instance> instance, std::shared_ptr<PollHandler> handler,
       PollerOptions options)
      : instance_(std::move(instance)),
        handler_(std::move(handler)),
        log_(options.log),
        driver_(instance_, *handler_, std::move(options), {}) {}

  void start() {
    check_process();
    MutexLock lock(mutex_);
    if (closed_) throw MisuseError("poller: start() after close(); make a new one");
    if (std::exchange(started_, true)) throw MisuseError("poller: start() was called twice");
    driver_.start();
  }

  bool poll() {
    check_process();
    check_thread("poll()");
    const internal::OwnThread own(this);
    return driver_.read_now();
  }

  void wake() { driver_.look_everywhere(); }

  void close() {
    check_process();
    check_thread("close()");
    {
      MutexLock lock(mutex_);
      if (std::exchange(closed_, true)) return;
    }
    driver_.stop();
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
    if (!driver_.on_own_thread() && !internal::OwnThread::works_for(this)) return;
    throw MisuseError("poller: " + call +
                      " in a call of its handler would wait for itself: call it on another thread");
  }

  void check_process() const {
    if (!in_this_process()) {
      throw MisuseError("this poller belongs to the parent process: make a new one after fork()");
    }
  }

  const std::shared_ptr<Instance> instance_;
  const std::shared_ptr<PollHandler> handler_;
  const Logger log_;
  const int pid_ = getpid();
  internal::Driver driver_;
  Mutex mutex_;
  bool started_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool closed_ OUTBOX_GUARDED_BY(mutex_) = false;
};

Poller::Poller(std::shared_ptr<Instance> instance, std::shared_ptr<PollHandler> handler,
               PollerOptions options) {
  if (!instance) throw MisuseError("poller: the instance is null");
  if (!handler) throw MisuseError("poller: the handler is null");
  impl_ = std::make_unique<Impl>(std::move(instance), std::move(handler),
                                 internal::Driver::checked_options(std::move(options)));
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
