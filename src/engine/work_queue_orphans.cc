// What is away, and what becomes of it when its tenure ends.
#include <algorithm>
#include <utility>

#include "engine/work_queue.h"

namespace outbox::internal {
namespace {

constexpr std::size_t kSpareAway = 1'000;

}  // namespace

void WorkQueue::goes_away(const Job& job) {
  if (job.lane == kNoLane) return;
  auto found = away_.find(job.lane);
  if (found == away_.end()) {
    if (spare_away_.empty()) {
      found = away_.try_emplace(job.lane).first;
    } else {
      spare_away_.back().key() = job.lane;
      found = away_.insert(std::move(spare_away_.back())).position;
      spare_away_.pop_back();
    }
    found->second = {.shard = job.row.ref.shard};
  }
  ++found->second.jobs;
}

// The last orphan of a lane lets it go on.
void WorkQueue::is_back(const Job& job) {
  if (job.lane == kNoLane) return;
  // A tenure may come back under the epoch that it had; what was away then is an orphan.
  const auto found = job.epoch == epoch_ ? away_.find(job.lane) : away_.end();
  if (found != away_.end()) {
    if (--found->second.jobs > 0) return;
    AwayByLane::node_type node = away_.extract(found);
    if (spare_away_.size() < kSpareAway) spare_away_.push_back(std::move(node));
    return;
  }
  const auto orphan = orphans_.find(job.lane);
  if (--orphan->second.jobs > 0) return;
  orphans_.erase(orphan);
  if (Lane* lane = lanes_.find(job.lane); lane != nullptr) {
    lane->frozen = false;
    settle(*lane);
  }
}

// Nothing of their lanes runs until they are back: what the reader meets goes aside.
void WorkQueue::await_orphans() {
  if (epoch_ == 0) return;
  for (const auto& [key, orphan] : orphans_) {
    if (!owns(orphan.shard)) continue;
    Lane& lane = lanes_.at(key, orphan.shard);
    lane.frozen = true;
    lane.aside = true;
  }
}

bool WorkQueue::adopt(Job& job) {
  MutexLock lock(mutex_);
  const bool orphan = job.epoch != epoch_ && job.epoch != kHandedOver && job.lane != kNoLane;
  Lane* lane = orphan ? lanes_.find(job.lane) : nullptr;
  // Also in a shard that is being given up, and may be ours for good after all.
  if (lane == nullptr || !lane->frozen) {
    account(job, false);
    is_back(job);
    check_rest();
    return false;
  }
  // First, so that the lane stays.
  ++lane->asides_pending;
  if (job.row.ref.hold == lane->key) ++lane->read_back;
  // What was in the queue before it has been dropped: it is read again first.
  lane->open_after = std::max(lane->open_after, job.row.ref.seq);
  is_back(job);
  job.epoch = epoch_;
  goes_away(job);
  return true;
}

std::vector<Job> WorkQueue::enter(std::int64_t epoch) {
  MutexLock lock(mutex_);
  for (const auto& [key, away] : away_) {
    Away& orphan = orphans_[key];
    orphan.shard = away.shard;
    orphan.jobs += away.jobs;
  }
  away_.clear();
  for (auto& [id, hung] : hung_) {
    hung.orphan = true;
    // What was postponed for the next owner was so in the last tenure, or was not.
    if (hung.state != Hung::State::released) hung.state = Hung::State::running;
  }
  epoch_ = epoch;
  std::vector<Job> jobs = drop_all_locked();
  await_orphans();
  return jobs;
}

}  // namespace outbox::internal
