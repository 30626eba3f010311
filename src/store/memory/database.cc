#include "store/memory/database.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/bounded.h"
#include "base/process.h"
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

Lease Members::renew(MemberId id, const InstanceOptions& options, Time now) {
  Member& me = live_[id];
  if (me.epoch == 0) {
    me.epoch = new_epoch();
    me.name = options.name;
    me.registered_at = now;
  }
  me.beat = now;
  me.capacity = options.capacity;
  me.lease = internal::bounded(options.lease);
  me.exclusive = options.exclusive;
  evict_expired(now);

  Lease lease;
  const std::size_t share = quota(me);

  // What is being drained already is the first to go; it comes back into use
  // only if the share has grown.
  std::size_t kept = 0;
  for (const bool was_draining : {false, true}) {
    for (Shard& shard : shards_) {
      if (shard.owner != id || shard.draining != was_draining) continue;
      shard.draining = kept >= share;
      if (!shard.draining) ++kept;
    }
  }

  for (std::size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    if (shard.owner == 0 && kept < share) {
      ++kept;
      if (shard.candidates) lease.inherited.push_back({static_cast<int>(i), *shard.candidates});
      shard = {.owner = id};
    }
    if (shard.owner == id) {
      (shard.draining ? lease.draining : lease.shards).push_back(static_cast<int>(i));
    }
  }

  const bool standby = lease.shards.empty() && lease.draining.empty();
  lease.epoch = standby ? 0 : me.epoch;
  return lease;
}

void Members::release(MemberId id, int shard) {
  if (owns(id, shard)) shards_[static_cast<std::size_t>(shard)] = {};
}

void Members::leave(MemberId id) {
  if (live_.erase(id) == 0) return;
  for (Shard& shard : shards_) {
    if (shard.owner == id) shard = {};
  }
}

std::vector<outbox::Member> Members::list(Time now) const {
  std::vector<outbox::Member> result;
  for (const auto& [id, member] : live_) {
    std::vector<int> owned;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].owner == id) owned.push_back(static_cast<int>(i));
    }
    result.push_back({.name = member.name,
                      .host = host_name(),
                      .pid = getpid(),
                      .registered_at = member.registered_at,
                      .alive = !member.expired(now),
                      .epoch = member.epoch,
                      .shards = std::move(owned)});
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.epoch < b.epoch; });
  return result;
}

void Members::evict_expired(Time now) {
  std::erase_if(live_, [&](const auto& entry) {
    const auto& [id, member] = entry;
    if (!member.expired(now)) return false;
    for (Shard& shard : shards_) {
      if (shard.owner == id) shard = {.candidates = member.capacity};
    }
    return true;
  });
}

// As even as whole shards allow; the oldest get one more. But the oldest that
// wants everything gets everything.
std::size_t Members::quota(const Member& member) const {
  std::size_t rank = 0;
  const Member* sole = nullptr;
  for (const auto& [id, other] : live_) {
    if (other.epoch < member.epoch) ++rank;
    if (other.exclusive && (sole == nullptr || other.epoch < sole->epoch)) sole = &other;
  }
  if (sole != nullptr) return sole == &member ? shards_.size() : 0;
  const std::size_t members = live_.size();
  return shards_.size() / members + (rank < shards_.size() % members ? 1 : 0);
}

}  // namespace outbox::memory
