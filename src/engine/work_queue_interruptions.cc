// What interrupts the work: leases that begin and end, shards that are given up, calls that hang,
// listeners that are unavailable or paused; and the end.
#include <algorithm>
#include <utility>

#include "engine/completer.h"
#include "engine/work_queue.h"

namespace outbox::internal {

// --- Shards ---

void WorkQueue::own(std::optional<std::vector<int>> shards) {
  MutexLock lock(mutex_);
  shards_ = std::move(shards);
  await_reclaimed();
}

bool WorkQueue::takes_directly(int shard) const {
  MutexLock lock(mutex_);
  return !paused_ && owns(shard);
}

bool WorkQueue::owns(int shard) const {
  return !shards_ || std::find(shards_->begin(), shards_->end(), shard) != shards_->end();
}

// --- Leases ---

// Nothing of their lanes runs until they are back: what the reader meets is held.
void WorkQueue::await_reclaimed() {
  if (epoch_ == 0) return;
  for (const auto& [key, reclaimed] : in_flight_.reclaimed()) {
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
  // Also in a shard that is being drained: it may stay ours after all.
  if (lane == nullptr || !lane->frozen()) return false;
  // First, so that the lane stays.
  lane->hold_submitted();
  if (lane->was_held(job)) lane->held_row_read();
  // Jobs queued before it have been dropped: they are read again first.
  lane->read_after(job.row.ref.seq);
  check_in(job);
  job.epoch = epoch_;
  check_out(job);
  return true;
}

// Its shard may be ours again, and its lane wait for it: a read of the lane meets it.
void WorkQueue::let_go(const Job& job) {
  MutexLock lock(mutex_);
  remove(job);
  // It may wait for a time by now, whatever it did when it was read: it was handed over, or its
  // update has been acknowledged and the answer was lost.
  RowRef row = job.row.ref;
  row.hold = -1;
  pass_over(row);
  check_in(job);
  check_rest();
}

std::vector<Job> WorkQueue::enter(std::int64_t epoch, Completer* completer) {
  MutexLock lock(mutex_);
  if (completer != nullptr) completer->set_epoch(epoch);
  in_flight_.end_lease();
  epoch_ = epoch;
  std::vector<Job> jobs = drop_all_locked();
  for (const Job& job : jobs) in_flight_.remove(job.row.event.id());
  await_reclaimed();
  return jobs;
}

// --- Calls that hang, and shards that are given up ---

void WorkQueue::hangs(std::span<const Job> call) {
  MutexLock lock(mutex_);
  if (in_flight_.is_hung(call.front().row.event.id())) return;
  for (const Job& job : call) {
    in_flight_.hangs(job.row.event.id(), job.lane, job.row.ref.shard, job.epoch == epoch_);
  }
  Breaker* route = call.front().route;
  if (route == nullptr) return;
  route->hangs();
  if (!route->closed() && route->may_start()) unpark(route);
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
  // If the shard stays ours after all, nothing may pass it.
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

// --- Listeners that get no calls for a while ---

void WorkQueue::take_back(Job& job) {
  check_in(job);
  ++load(job).queued;
  Breaker* route = job.route;
  Lane* lane = current_lane(job);
  if (lane == nullptr) {
    parked_[route].push_front({.job = std::move(job)});
    return;
  }
  lane->push_first(std::move(job));
  // Another job of the batch has parked it already; or waits for its update, after which the lane
  // goes on with this one.
  if (!lane->idle()) return;
  lane->stand_in_line();
  parked_[route].push_front({.lane = lane});
}

void WorkQueue::unpark(Breaker* route) {
  const auto found = parked_.find(route);
  if (found == parked_.end()) return;
  // They stood in line before; start() parks again what is too many.
  for (auto ticket = found->second.rbegin(); ticket != found->second.rend(); ++ticket) {
    (ticket->first().hot ? hot_ : cold_).push_front(std::move(*ticket));
  }
  parked_.erase(found);
  waking_ = idle_;
  work_.notify_all();
}

std::optional<Clock::Steady> WorkQueue::tick(Clock::Steady now) {
  MutexLock lock(mutex_);
  std::optional<Clock::Steady> next;
  std::vector<Breaker*> open;
  for (const auto& [route, tickets] : parked_) {
    if (route->held()) continue;
    route->tick(now);
    const auto until = route->paused_until();
    if (!until) open.push_back(route);
    if (until && (!next || *until < *next)) next = until;
  }
  for (Breaker* route : open) unpark(route);
  return next;
}

// --- Operators ---

void WorkQueue::pause(bool on) {
  MutexLock lock(mutex_);
  paused_ = on;
  if (on) return;
  poll_requested_ = true;
  waking_ = idle_;
  work_.notify_all();
}

void WorkQueue::pause(Breaker& route, bool on, Clock::Steady now) {
  MutexLock lock(mutex_);
  if (on) {
    route.hold(now);
  } else {
    route.let_go();
    unpark(&route);
    if (route.paused_until()) parked_.try_emplace(&route);  // tick() ends that pause
  }
}

bool WorkQueue::paused() const {
  MutexLock lock(mutex_);
  return paused_;
}

std::chrono::nanoseconds WorkQueue::open_for(const Breaker& route, Clock::Steady now) const {
  MutexLock lock(mutex_);
  return route.open_for(now);
}

// --- The end ---

bool WorkQueue::drain(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  draining_ = true;
  while (running_ > 0 || polling_ || (in_line() > 0 && !paused_)) {
    if (!quiet_.wait_until(mutex_, deadline)) return false;
  }
  return true;
}

bool WorkQueue::wait_empty(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (hot_load_.held + cold_load_.held > 0) {
    if (!empty_.wait_until(mutex_, deadline)) return false;
  }
  return true;
}

void WorkQueue::wait_change(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  empty_.wait_until(mutex_, deadline);
}

std::vector<Job> WorkQueue::drop_all() {
  MutexLock lock(mutex_);
  lanes_forgotten_ = true;
  return drop_all_locked();
}

std::vector<Job> WorkQueue::drop_all_locked() {
  std::vector<Job> jobs = lanes_.clear();
  const auto take_loose = [&jobs](std::deque<Ticket>& queue) {
    for (Ticket& ticket : queue) {
      if (ticket.job) jobs.push_back(std::move(*ticket.job));
    }
    queue.clear();
  };
  take_loose(hot_);
  take_loose(cold_);
  for (auto& [route, tickets] : parked_) take_loose(tickets);
  for (const Job& job : jobs) account(job, false);
  hot_load_.queued = 0;
  cold_load_.queued = 0;
  announce_quiet();
  return jobs;
}

void WorkQueue::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  work_.notify_all();
}

}  // namespace outbox::internal
