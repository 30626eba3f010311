// Calls that hang, and how a shard is given up around them.
#include <algorithm>
#include <utility>

#include "engine/work_queue.h"

namespace outbox::internal {

void WorkQueue::hangs(const Job& job) {
  MutexLock lock(mutex_);
  in_flight_.hangs(job.row.event.id(), job.lane, job.row.ref.shard, job.epoch == epoch_);
}

// The call has come to an end after all.
void WorkQueue::returned(Job& job) {
  using Call = InFlight::Call;
  const Call call = in_flight_.returned(job.row.event.id());
  if (call == Call::released) {
    job.epoch = kHandedOver;
  } else if (call == Call::handing_over || call == Call::handed_over) {
    // The shard is still ours: its outcome counts, and its lane goes on.
    if (Lane* lane = current_lane(job); lane != nullptr) lane->go_on();
  }
}

std::size_t WorkQueue::active(std::size_t refused) const {
  MutexLock lock(mutex_);
  const std::size_t held = hot_load_.held + cold_load_.held;
  if (in_flight_.hung() == 0 && refused == 0) return held;
  // A lane waits for its call, or, frozen, for an update.
  const std::size_t stuck =
      in_flight_.hung() + refused + lanes_.jobs_that_wait(in_flight_.hung_lanes());
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
  for (const Job& job : jobs) remove(job);
  announce_quiet();
  return jobs;
}

bool WorkQueue::begin_hand_over(const Job& job) {
  MutexLock lock(mutex_);
  if (!in_flight_.begin_hand_over(job.row.event.id())) return false;
  if (job.lane == kNoLane) return true;
  // Should the shard be ours for good after all, nothing may pass it.
  Lane& lane = lanes_.at(job.lane, job.row.ref.shard);
  lane.await_ack();
  lane.hold();
  return true;
}

void WorkQueue::handed_over(const Job& job, bool acked) {
  MutexLock lock(mutex_);
  in_flight_.end_hand_over(job.row.event.id(), acked && job.epoch == epoch_);
}

bool WorkQueue::hung_are_handed_over() const {
  MutexLock lock(mutex_);
  return in_flight_.all_handed_over();
}

bool WorkQueue::shard_idle(int shard) const {
  MutexLock lock(mutex_);
  return is_idle(shard);
}

bool WorkQueue::is_idle(int shard) const {
  const auto held = shard_held_.find(shard);
  return held == shard_held_.end() || held->second == in_flight_.handed_over_of(shard);
}

bool WorkQueue::forget_shard(int shard) {
  MutexLock lock(mutex_);
  if (!is_idle(shard)) return false;
  in_flight_.release_handed_over(shard);
  lanes_.forget_shard(shard);
  shard_held_.erase(shard);
  return true;
}

}  // namespace outbox::internal
