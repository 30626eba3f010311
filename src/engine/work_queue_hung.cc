// Calls that hang, and how a shard is given up around them.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "engine/work_queue.h"

namespace outbox::internal {

void WorkQueue::hangs(const Job& job) {
  MutexLock lock(mutex_);
  hung_.try_emplace(
      job.row.event.id(),
      Hung{.lane = job.lane, .shard = job.row.ref.shard, .reclaimed = job.epoch != epoch_});
}

// The call has come to an end after all.
void WorkQueue::returned(Job& job) {
  const auto found = hung_.find(job.row.event.id());
  if (found == hung_.end()) return;
  const Hung::State state = found->second.state;
  hung_.erase(found);
  if (state == Hung::State::released) {
    job.epoch = kHandedOver;
  } else if (state != Hung::State::running) {
    // The shard is still ours: its outcome counts, and its lane goes on.
    if (Lane* lane = current_lane(job); lane != nullptr) lane->go_on();
  }
}

std::size_t WorkQueue::active(std::size_t refused) const {
  MutexLock lock(mutex_);
  const std::size_t held = hot_load_.held + cold_load_.held;
  if (hung_.empty() && refused == 0) return held;
  // A lane waits for its call, or, frozen, for a update.
  std::set<LaneKey> waiting;
  for (const auto& [id, hung] : hung_) {
    if (hung.lane != kNoLane && !hung.reclaimed) waiting.insert(hung.lane);
  }
  const std::size_t stuck = hung_.size() + refused + lanes_.jobs_that_wait(waiting);
  return held - std::min(held, stuck);
}

bool WorkQueue::has_waiting() const {
  MutexLock lock(mutex_);
  return in_line() > 0;
}

bool WorkQueue::begin_poll() {
  MutexLock lock(mutex_);
  if (!should_poll(true)) return false;
  polling_ = true;
  poll_requested_ = false;
  return true;
}

// Takes the shard's places in a line, but for those of candidates.
void WorkQueue::leave_line(std::deque<Ticket>& line, int shard, std::vector<Job>& jobs) {
  std::deque<Ticket> left;
  for (Ticket& ticket : line) {
    if (ticket.first().row.ref.shard != shard || ticket.first().candidate) {
      left.push_back(std::move(ticket));
    } else if (ticket.lane != nullptr) {
      ticket.lane->leave_line();
    } else {
      --load(*ticket.job).queued;
      jobs.push_back(std::move(*ticket.job));
    }
  }
  line = std::move(left);
}

std::vector<Job> WorkQueue::shed(int shard) {
  MutexLock lock(mutex_);
  std::vector<Job> jobs;
  leave_line(hot_, shard, jobs);
  leave_line(cold_, shard, jobs);
  for (auto& [route, line] : parked_) leave_line(line, shard, jobs);
  for (Lane* lane : lanes_.of_shard(shard)) {
    // A lane with candidates goes on until they are delivered.
    if (std::any_of(lane->jobs().begin(), lane->jobs().end(),
                    [](const Job& job) { return job.candidate; })) {
      settle(*lane);
      continue;
    }
    for (Job& job : lane->take_jobs()) {
      --load(job).queued;
      if (lane->was_held(job)) lane->held_row_left();
      jobs.push_back(std::move(job));
    }
    settle(*lane);
  }
  for (const Job& job : jobs) account(job, false);
  announce_quiet();
  return jobs;
}

bool WorkQueue::begin_hand_over(const Job& job) {
  MutexLock lock(mutex_);
  const auto found = hung_.find(job.row.event.id());
  if (found == hung_.end() || found->second.state != Hung::State::running) return false;
  found->second.state = Hung::State::handing_over;
  if (job.lane == kNoLane) return true;
  // Should the shard be ours for good after all, nothing may pass it.
  Lane& lane = lanes_.at(job.lane, job.row.ref.shard);
  lane.await_ack();
  lane.hold();
  return true;
}

void WorkQueue::handed_over(const Job& job, bool acked) {
  MutexLock lock(mutex_);
  const auto found = hung_.find(job.row.event.id());
  if (found == hung_.end() || found->second.state != Hung::State::handing_over) return;
  found->second.state = acked ? Hung::State::handed_over : Hung::State::running;
}

bool WorkQueue::hung_are_handed_over() const {
  MutexLock lock(mutex_);
  return std::none_of(hung_.begin(), hung_.end(), [](const auto& entry) {
    return entry.second.state == Hung::State::running ||
           entry.second.state == Hung::State::handing_over;
  });
}

std::size_t WorkQueue::handed_over_of(int shard) const {
  return static_cast<std::size_t>(std::count_if(hung_.begin(), hung_.end(), [&](const auto& entry) {
    return entry.second.shard == shard && entry.second.state == Hung::State::handed_over;
  }));
}

bool WorkQueue::shard_idle(int shard) const {
  MutexLock lock(mutex_);
  return is_idle(shard);
}

bool WorkQueue::is_idle(int shard) const {
  const auto held = shard_held_.find(shard);
  return held == shard_held_.end() || held->second == handed_over_of(shard);
}

bool WorkQueue::forget_shard(int shard) {
  MutexLock lock(mutex_);
  if (!is_idle(shard)) return false;
  for (auto& [id, hung] : hung_) {
    if (hung.shard != shard || hung.state != Hung::State::handed_over) continue;
    hung.state = Hung::State::released;
    if (hung.lane == kNoLane || std::exchange(hung.reclaimed, true)) continue;
    CheckedOut& reclaimed = reclaimed_[hung.lane];
    reclaimed.shard = shard;
    ++reclaimed.jobs;
    const auto away = checked_out_.find(hung.lane);
    if (away != checked_out_.end() && --away->second.jobs == 0) checked_out_.erase(away);
  }
  lanes_.forget_shard(shard);
  shard_held_.erase(shard);
  return true;
}

}  // namespace outbox::internal
