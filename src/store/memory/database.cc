#include "store/memory/database.h"

#include <utility>

#include "base/thread.h"

namespace outbox::memory {

bool FairGate::enter(std::chrono::milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  MutexLock lock(mutex_);
  const std::uint64_t ticket = ++last_ticket_;
  waiting_.push_back(ticket);

  bool in_time = true;
  while (!first_in_line(ticket) && in_time) in_time = changed_.wait_until(mutex_, deadline);

  const bool entered = first_in_line(ticket);
  if (entered) --free_;
  std::erase(waiting_, ticket);
  // The thread that is first now may find another place free.
  if (!waiting_.empty() && free_ > 0) changed_.notify_all();
  return entered;
}

void FairGate::leave() {
  MutexLock lock(mutex_);
  ++free_;
  if (!waiting_.empty()) changed_.notify_all();
}

// Calls back from a thread of its own, so that neither the speed of the
// callback nor the locks that it takes concern the one who commits.
class Watcher final : public Watch {
 public:
  Watcher(std::shared_ptr<Watchers> all, std::function<void()> on_commit)
      : all_(std::move(all)), on_commit_(std::move(on_commit)), thread_([this] { run(); }) {
    MutexLock lock(all_->mutex_);
    all_->watchers_.push_back(this);
  }

  ~Watcher() override {
    {
      MutexLock lock(all_->mutex_);
      std::erase(all_->watchers_, this);
    }
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }

  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void notify() {
    MutexLock lock(mutex_);
    if (notified_) return;
    notified_ = true;
    changed_.notify_one();
  }

 private:
  void run() {
    name_this_thread("outbox-watch");
    while (wait()) on_commit_();
  }

  // False once it is stopped.
  bool wait() {
    MutexLock lock(mutex_);
    while (!notified_ && !stopped_) changed_.wait(mutex_);
    notified_ = false;
    return !stopped_;
  }

  const std::shared_ptr<Watchers> all_;
  const std::function<void()> on_commit_;

  Mutex mutex_;
  CondVar changed_;
  bool notified_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;

  Thread thread_;  // last: it uses all of the above, and joins first
};

std::unique_ptr<Watch> Watchers::add(std::shared_ptr<Watchers> watchers,
                                     std::function<void()> on_commit) {
  return std::make_unique<Watcher>(std::move(watchers), std::move(on_commit));
}

void Watchers::notify() {
  MutexLock lock(mutex_);
  for (Watcher* watcher : watchers_) watcher->notify();
}

}  // namespace outbox::memory
