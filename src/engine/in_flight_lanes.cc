// What is away, and what becomes of it when its lease ends.
#include <algorithm>
#include <utility>

#include "engine/work_queue.h"

namespace outbox::internal {
namespace {

constexpr std::size_t kSpareCheckedOut = 1'000;

}  // namespace

void WorkQueue::check_out(const Job& job) {
  if (job.lane == kNoLane) return;
  auto found = checked_out_.find(job.lane);
  if (found == checked_out_.end()) {
    if (spare_checked_out_.empty()) {
      found = checked_out_.try_emplace(job.lane).first;
    } else {
      spare_checked_out_.back().key() = job.lane;
      found = checked_out_.insert(std::move(spare_checked_out_.back())).position;
      spare_checked_out_.pop_back();
    }
    found->second = {.shard = job.row.ref.shard};
  }
  ++found->second.jobs;
}

// The last reclaimed of a lane lets it go on.
void WorkQueue::check_in(const Job& job) {
  if (job.lane == kNoLane) return;
  // A lease may come back under the epoch that it had; what was away then is a reclaimed one.
  const auto found = job.epoch == epoch_ ? checked_out_.find(job.lane) : checked_out_.end();
  if (found != checked_out_.end()) {
    if (--found->second.jobs > 0) return;
    CheckedOutByLane::node_type node = checked_out_.extract(found);
    if (spare_checked_out_.size() < kSpareCheckedOut) spare_checked_out_.push_back(std::move(node));
    return;
  }
  const auto reclaimed = reclaimed_.find(job.lane);
  if (--reclaimed->second.jobs > 0) return;
  reclaimed_.erase(reclaimed);
  if (Lane* lane = lanes_.find(job.lane); lane != nullptr) {
    lane->go_on();
    settle(*lane);
  }
}

// Nothing of their lanes runs until they are back: what the reader meets is held.
void WorkQueue::await_reclaimed() {
  if (epoch_ == 0) return;
  for (const auto& [key, reclaimed] : reclaimed_) {
    if (!owns(reclaimed.shard)) continue;
    Lane& lane = lanes_.at(key, reclaimed.shard);
    lane.await_ack();
    lane.hold();
  }
}

bool WorkQueue::reclaim(Job& job) {
  MutexLock lock(mutex_);
  const bool reclaimed = job.epoch != epoch_ && job.epoch != kHandedOver && job.lane != kNoLane;
  Lane* lane = reclaimed ? lanes_.find(job.lane) : nullptr;
  // Also in a shard that is being given up, and may be ours for good after all.
  if (lane == nullptr || !lane->frozen()) {
    account(job, false);
    check_in(job);
    check_rest();
    return false;
  }
  // First, so that the lane stays.
  lane->hold_submitted();
  if (lane->was_held(job)) lane->held_row_read();
  // What was in the queue before it has been dropped: it is read again first.
  lane->read_after(job.row.ref.seq);
  check_in(job);
  job.epoch = epoch_;
  check_out(job);
  return true;
}

std::vector<Job> WorkQueue::enter(std::int64_t epoch) {
  MutexLock lock(mutex_);
  for (const auto& [key, away] : checked_out_) {
    CheckedOut& reclaimed = reclaimed_[key];
    reclaimed.shard = away.shard;
    reclaimed.jobs += away.jobs;
  }
  checked_out_.clear();
  for (auto& [id, hung] : hung_) {
    hung.reclaimed = true;
    // What was postponed for the next owner was so in the last lease, or was not.
    if (hung.state != Hung::State::released) hung.state = Hung::State::running;
  }
  epoch_ = epoch;
  std::vector<Job> jobs = drop_all_locked();
  await_reclaimed();
  return jobs;
}

}  // namespace outbox::internal
