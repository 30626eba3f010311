// What may enter the queue, and in which lane.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/work_queue.h"

namespace outbox::internal {
namespace {

// How many blocked lanes are looked at when one turned out to be free.
constexpr std::size_t kRecheckMore = 20;

constexpr std::size_t kHeadAndNext = 2;

}  // namespace

// --- Admission ---

WorkQueue::Admission WorkQueue::admit(Job& job) {
  MutexLock lock(mutex_);
  return take_in(job);
}

WorkQueue::Admission WorkQueue::admit_quietly(Job& job) {
  MutexLock lock(mutex_);
  reading_quietly_ = true;
  const Admission admission = take_in(job);
  reading_quietly_ = false;
  return admission;
}

void WorkQueue::read_begins() {
  MutexLock lock(mutex_);
  in_flight_.read_begins();
}

void WorkQueue::read_ends() {
  MutexLock lock(mutex_);
  in_flight_.read_ends();
  // The reading worker keeps the first one for itself.
  if (in_line() > (polling_ ? 1 : 0)) call_worker();
}

WorkQueue::Admission WorkQueue::take_in(Job& job) {
  const std::string& id = job.row.event.id();
  if (in_flight_.contains(id)) return Admission::in_flight;
  if (!admissible(job)) return Admission::full;
  in_flight_.add(id);
  account(job, true);
  return place(job);
}

WorkQueue::Admission WorkQueue::take_reserved(Job& job) {
  if (!admissible(job)) return Admission::full;
  account(job, true);
  return place(job);
}

WorkQueue::Admission WorkQueue::admit_direct(Job& job) {
  MutexLock lock(mutex_);
  if (!owns(job.row.ref.shard)) {
    return in_flight_.contains(job.row.event.id()) ? Admission::in_flight : Admission::full;
  }
  return take_in(job);
}

WorkQueue::Admission WorkQueue::admit_reserved(Job& job) {
  MutexLock lock(mutex_);
  if (!owns(job.row.ref.shard)) return Admission::full;
  return take_reserved(job);
}

bool WorkQueue::reserve_event(std::string_view event_id) {
  MutexLock lock(mutex_);
  return in_flight_.reserve(event_id);
}

void WorkQueue::give_up_event(std::string_view event_id) {
  MutexLock lock(mutex_);
  in_flight_.remove(event_id);
}

void WorkQueue::leave_to_reader(std::string_view event_id, const RowRef& row) {
  MutexLock lock(mutex_);
  in_flight_.remove(event_id);
  pass_over(row);
}

bool WorkQueue::knows(std::string_view event_id) const {
  MutexLock lock(mutex_);
  return in_flight_.contains(event_id);
}

std::size_t WorkQueue::known() const {
  MutexLock lock(mutex_);
  return in_flight_.all();
}

WorkQueue::Admission WorkQueue::reserve(Job& job) {
  MutexLock lock(mutex_);
  const std::string& id = job.row.event.id();
  if (in_flight_.contains(id)) return Admission::in_flight;
  if (!admissible(job)) return Admission::full;
  in_flight_.add(id);
  account(job, true);
  check_out(job);
  if (Lane* lane = current_lane(job); lane != nullptr && lane->was_held(job)) {
    lane->hold_submitted();
  }
  return Admission::queued;
}

bool WorkQueue::admissible(const Job& job) const {
  return !stopped_ && job.epoch == epoch_ && room_locked(job.hot) > 0;
}

WorkQueue::Admission WorkQueue::begin(Job& job) {
  MutexLock lock(mutex_);
  if (stopped_ || job.epoch != epoch_) return Admission::full;
  check_in(job);
  if (Lane* lane = current_lane(job); lane != nullptr && lane->was_held(job)) lane->hold_acked();
  return place(job);
}

WorkQueue::Admission WorkQueue::place(Job& job) {
  if (job.lane == kNoLane) {
    ++load(job).queued;
    line_up({.job = std::move(job)});
    return Admission::queued;
  }
  if (job.row.ref.hold <= 0) job.lane = lanes_.lane_for(job.lane);
  Lane& lane = lanes_.at(job.lane, job.row.ref.shard);
  if (lanes_.behind_others(lane)) lane.hold();
  const bool park = lane.blocked() && options_.park;
  const bool was_held = lane.was_held(job);
  if (was_held) lane.held_row_read();
  if (!park && (was_held || (!lane.held() && lane.jobs().size() < lane_limit_))) {
    ++load(job).queued;
    lane.push(std::move(job));
    settle(lane);
    return Admission::queued;
  }
  lane.hold();
  lane.hold_submitted();
  check_out(job);
  settle(lane);
  return park ? Admission::park : Admission::hold;
}

std::size_t WorkQueue::room_locked(bool hot) const {
  if (paused_) return 0;
  if (room_bytes_locked() == 0) return 0;
  const std::size_t capacity = hot ? options_.hot_capacity : options_.cold_capacity;
  const std::size_t held = hot ? hot_load_.held : cold_load_.held;
  return capacity - std::min(capacity, held);
}

std::size_t WorkQueue::room_bytes_locked() const {
  return options_.capacity_bytes - std::min(options_.capacity_bytes, held_bytes_);
}

std::size_t WorkQueue::room_bytes() const {
  MutexLock lock(mutex_);
  return room_bytes_locked();
}

std::size_t WorkQueue::held_bytes() const {
  MutexLock lock(mutex_);
  return held_bytes_;
}

std::size_t WorkQueue::room(bool hot) const {
  MutexLock lock(mutex_);
  return room_locked(hot);
}

std::size_t WorkQueue::depth(bool hot) const {
  MutexLock lock(mutex_);
  return hot ? hot_load_.queued : cold_load_.queued;
}

std::size_t WorkQueue::in_flight() const {
  MutexLock lock(mutex_);
  return hot_load_.held + cold_load_.held;
}

void WorkQueue::account(const Job& job, bool in) {
  std::size_t& held = load(job).held;
  const std::size_t bytes = job.row.event.payload().size();
  // What was handed over counts for no shard any more.
  std::size_t* shard = job.epoch != kHandedOver ? &shard_held_[job.row.ref.shard] : nullptr;
  if (in) {
    ++held;
    if (shard != nullptr) ++*shard;
    held_bytes_ += bytes;
  } else {
    --held;
    if (shard != nullptr) --*shard;
    held_bytes_ -= bytes;
    if (hot_load_.held + cold_load_.held == 0) empty_.notify_all();
  }
}

// --- What is in flight ---

void WorkQueue::remove(const Job& job) {
  in_flight_.remove(job.row.event.id());
  account(job, false);
}

void WorkQueue::check_out(const Job& job) {
  if (job.lane != kNoLane) in_flight_.check_out(job.lane, job.row.ref.shard);
}

// The last reclaimed of a lane lets it go on.
void WorkQueue::check_in(const Job& job) {
  if (job.lane == kNoLane || !in_flight_.check_in(job.lane, job.epoch == epoch_)) return;
  if (Lane* lane = lanes_.find(job.lane); lane != nullptr) {
    lane->go_on();
    settle(*lane);
  }
}

void WorkQueue::leave_behind(const RowRef& row) {
  MutexLock lock(mutex_);
  if (has_reader_) in_flight_.leave_behind(row);
}

void WorkQueue::pass_over(const RowRef& row) {
  if (!has_reader_) return;
  in_flight_.leave_behind(row);
  ask_for_poll();
}

std::vector<RowRef> WorkQueue::take_left_behind() {
  MutexLock lock(mutex_);
  return in_flight_.take_left_behind();
}

// --- Lanes ---

// Null if the job has no lane, or if lanes were forgotten since it was admitted.
Lane* WorkQueue::current_lane(const Job& job) {
  if (job.lane == kNoLane || job.epoch != epoch_) return nullptr;
  return lanes_.find(job.lane);
}

void WorkQueue::settle(Lane& lane) {
  if (!lanes_.update(lane)) return;
  lane.stand_in_line();
  line_up({.lane = &lane});
}

void WorkQueue::restore(const HeldLane& lane, Clock::Steady now) {
  MutexLock lock(mutex_);
  lanes_.restore(lane, now);
}

PollHandler::LaneRead WorkQueue::next_lane(std::span<const Seq> read_through, Clock::Steady now) {
  MutexLock lock(mutex_);
  const std::size_t room = std::min(room_locked(false), lane_limit_);
  if (room == 0) return {};
  const Lane* lane = lanes_.next_readable(read_through, now);
  if (lane == nullptr) return {};
  // Rows that it gave back earlier and that are not marked yet come first. Of a lane whose
  // head has failed only the head is fetched: the others would be thrown away again if it
  // fails once more. One row more tells whether there are any.
  return {.key = lane->key(),
          .shard = lane->shard(),
          .limit = (lane->failing() ? kHeadAndNext : room) + lane->read_back(),
          .bytes = lane->failing() ? 1 : room_bytes_locked(),
          .read_through = read_through[static_cast<std::size_t>(lane->shard())]};
}

std::vector<Job> WorkQueue::load_lane(LaneKey key, LanePage page) {
  MutexLock lock(mutex_);
  Lane* lane = lanes_.find(key);
  if (lane == nullptr) return std::move(page.jobs);
  if (page.epoch != epoch_) {
    // They say nothing of this lease's lane, which may want its rows all the same.
    settle(*lane);
    return std::move(page.jobs);
  }
  for (Job& job : page.jobs) {
    const std::string& id = job.row.event.id();
    if (in_flight_.contains(id)) continue;
    in_flight_.add(id);
    account(job, true);
    ++cold_load_.queued;
    lane->held_row_read();
    lane->push(std::move(job));
  }
  lane->read_after(page.open_after);
  const bool freed = lanes_.was_rechecked(*lane) && !page.blocked;
  if (page.blocked) {
    lanes_.block(*lane);
  } else if (page.due) {
    lane->read_not_before(*page.due);
  } else if (!page.more && lane->holds_pending() == 0) {
    lane->nothing_held();
  }
  settle(*lane);
  // An operator is at work: others are likely to be free as well.
  if (freed) lanes_.recheck_blocked(kRecheckMore);
  return {};
}

bool WorkQueue::any_blocked() const {
  MutexLock lock(mutex_);
  return lanes_.any_blocked();
}

void WorkQueue::unblock(std::span<const LaneRef> lanes) {
  MutexLock lock(mutex_);
  for (const LaneRef& lane : lanes) lanes_.unblock(lanes_.find(lane.key));
}

void WorkQueue::recheck_blocked(std::size_t n) {
  MutexLock lock(mutex_);
  lanes_.recheck_blocked(n);
}

std::optional<Clock::Steady> WorkQueue::next_due() const {
  MutexLock lock(mutex_);
  return lanes_.next_due();
}

}  // namespace outbox::internal
