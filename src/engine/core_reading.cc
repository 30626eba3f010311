// What the reader brings.
#include <algorithm>
#include <utility>

#include "engine/core.h"

namespace outbox::internal {
namespace {

// How many lanes behind DEAD heads are looked at again at once.
constexpr std::size_t kRecheckAtOnce = 20;

// Written by plain SQL, without a word to the engine that it is to wait. An
// event that was available when it occurred never waits, whatever another clock
// says by now (one that was set back, or that of another host): later events of
// its aggregate would overtake it.
bool is_to_wait(const Row& row) {
  return row.ref.hold == 0 && row.available_in > std::chrono::microseconds::zero() &&
         row.event.available_at() > row.event.occurred_at();
}

}  // namespace

std::size_t Core::room() { return cold_room(); }

// With a tracker of the user's a read cannot tell which of its rows are in flight: these count as
// well.
std::size_t Core::room_bytes() {
  return queue_.room_bytes() + (tracker_ ? queue_.held_bytes() : 0);
}

// Rows that a read may meet and pass over: also those that are reserved, and not in the queue yet.
std::size_t Core::in_flight() { return tracker_ ? queue_.in_flight() : queue_.known(); }

void Core::read_begins(std::int64_t epoch) {
  reading_epoch_ = epoch;
  reading_ = true;
  queue_.read_begins();
}

void Core::read_ends() {
  reading_ = false;
  queue_.read_ends();
  give_back_claims();
}

// Of rows that were in flight when they were claimed, and are not any more.
void Core::give_back_claims() {
  const std::size_t freed = std::erase_if(claimed_in_flight_, [&](const auto& claimed) {
    const auto& [id, row] = claimed;
    if (tracker_ ? !tracker_->try_acquire(id) : queue_.knows(id)) return false;
    if (tracker_) tracker_->release(id);
    queue_.leave_behind(row);
    return true;
  });
  if (freed > 0) queue_.request_poll();
}

// False if it is in flight already, as the store or the tracker of the user says: only then may its
// payload be missing. Else the queue knows.
bool Core::acquire(const Row& row) {
  return !row.without_payload && (!tracker_ || tracker_->try_acquire(row.event.id()));
}

// False: the round ends, which gives the row back.
bool Core::meet_in_flight(const Row& row) {
  if (!options_.lock_timeout) return true;
  // Its retry has been acknowledged, and was claimed before the queue heard of that; or its call
  // hangs, and all claims were given up since. Nobody works on this claim: unless it is given back,
  // the row waits until it expires. But not yet, for the next read would claim it again.
  if (!events_.read) return false;
  claimed_in_flight_.emplace_back(row.event.id(), row.ref);
  return true;
}

bool Core::handle(Row row) {
  if (closing_) return false;
  const bool wait = is_to_wait(row);
  if (!acquire(row)) return meet_in_flight(row);
  Job job = job_of(std::move(row), false, reading_epoch_);
  if (wait) job.lane = kNoLane;
  const WorkQueue::Admission admission = wait       ? queue_.reserve(job)
                                         : reading_ ? queue_.admit_quietly(job)
                                                    : queue_.admit(job);
  if (admission == WorkQueue::Admission::in_flight) return meet_in_flight(job.row);
  if (admission == WorkQueue::Admission::full) {
    release(job);
    return false;
  }
  if (!wait) return admitted(job, admission);
  hold(std::move(job));
  return true;
}

std::size_t Core::deliver_isolated(std::vector<Row> rows) {
  std::size_t known = 0;
  std::vector<Completion> completions;
  for (Row& row : rows) {
    if (is_to_wait(row)) {
      handle(std::move(row));  // it cannot have been under way
      continue;
    }
    if (!acquire(row)) {
      ++known;
      continue;
    }
    Job job = job_of(std::move(row), false, reading_epoch_);
    // Rows held stay in the lane that they wait in.
    if (job.row.ref.hold > 0) job.lane = job.row.ref.hold;
    const WorkQueue::Admission admission = queue_.reserve(job);
    if (admission == WorkQueue::Admission::in_flight) {
      ++known;
      continue;
    }
    if (admission == WorkQueue::Admission::full) {
      release(job);
      queue_.leave_behind(job.row.ref);
      break;
    }
    job.candidate = true;
    StatusUpdate update{.row = job.row.ref,
                        .event_id = job.row.event.id(),
                        .kind = StatusUpdate::Kind::crashes,
                        .crashes = job.row.crashes + 1};
    completions.push_back(
        {.job = std::move(job),
         .decision = {.kind = Decision::Kind::begin, .update = std::move(update)}});
  }
  completer_.submit(std::move(completions));
  return known;
}

// Its crashes have been raised: now it may be delivered.
void Core::begin_isolated(Job job) {
  switch (queue_.begin(job)) {
    case WorkQueue::Admission::queued:
      break;
    case WorkQueue::Admission::hold:
      hold(std::move(job));
      break;
    case WorkQueue::Admission::park:
      park(std::move(job));
      break;
    case WorkQueue::Admission::in_flight:
    case WorkQueue::Admission::full: {
      std::vector<Job> reclaimed;
      reclaimed.push_back(std::move(job));
      give_back(std::move(reclaimed));
      break;
    }
  }
}

void Core::restore(const HeldLane& lane) { queue_.restore(lane, clock_.steady()); }

PollHandler::LaneRead Core::next_lane(std::span<const Seq> read_through) {
  if (closing_) return {};
  return queue_.next_lane(read_through, clock_.steady());
}

void Core::recheck_blocked() { queue_.recheck_blocked(kRecheckAtOnce); }

// After a change from `block` or `park` to `skip` a lane may begin with DEAD
// events that nobody waits for; they leave it, so that no later read meets them.
// False if there is no room for it now.
bool Core::unblock(LaneKey lane, Row row, std::vector<Completion>& completions) {
  if (!acquire(row)) return true;
  Job job = job_of(std::move(row), false, reading_epoch_);
  job.lane = lane;
  const WorkQueue::Admission admission = queue_.reserve(job);
  if (admission == WorkQueue::Admission::in_flight) return true;
  if (admission == WorkQueue::Admission::full) {
    release(job);
    return false;
  }
  StatusUpdate update{.row = job.row.ref,
                      .event_id = job.row.event.id(),
                      .kind = StatusUpdate::Kind::unblock,
                      .lane = lane};
  completions.push_back({.job = std::move(job),
                         .decision = {.kind = Decision::Kind::begin, .update = std::move(update)}});
  return true;
}

void Core::load_lane(const LaneRead& lane, Rows rows, bool candidate) {
  WorkQueue::LanePage page{.epoch = reading_epoch_, .more = rows.more};
  std::vector<Row> candidates;
  std::vector<Completion> unblocked;
  auto row = rows.rows.begin();
  for (; row != rows.rows.end(); ++row) {
    // Ready rows of the lane that have not been met in this lease may come before it.
    if (row->ref.seq > lane.read_through) {
      page.open_after = row->ref.seq;
      page.more = true;
      break;
    }
    if (row->status == Status::dead) {
      if (options_.dead.then != OnDead::skip) {
        page.blocked = true;
        break;
      }
      if (unblock(lane.key, std::move(*row), unblocked)) continue;
      page.more = true;
      break;
    }
    if (row->available_in > std::chrono::microseconds::zero()) {
      page.due = clock_.steady() + row->available_in;
      break;
    }
    if (candidate) {
      candidates.push_back(std::move(*row));
      continue;
    }
    if (!acquire(*row)) continue;
    Job job = job_of(std::move(*row), false, reading_epoch_);
    job.lane = lane.key;
    page.jobs.push_back(std::move(job));
  }
  const bool blocked = page.blocked;
  // Poison candidates are still to come: the lane is to be read again after them.
  if (!candidates.empty()) page.more = true;
  if (!candidates.empty()) deliver_isolated(std::move(candidates));
  for (const Job& job : queue_.load_lane(lane.key, std::move(page))) release(job);
  completer_.submit(std::move(unblocked));
  if (!blocked || options_.dead.then != OnDead::park) return;
  for (; row != rows.rows.end(); ++row) {
    if (row->status != Status::dead && !handle(std::move(*row))) return;
  }
}

}  // namespace outbox::internal
