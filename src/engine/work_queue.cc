#include "engine/work_queue.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace outbox::internal {
namespace {

using Kind = Decision::Kind;

// How many blocked lanes are looked at when one turned out to be free.
constexpr std::size_t kRecheckMore = 20;

constexpr std::size_t kHeadAndNext = 2;

std::size_t lane_limit_of(const WorkQueueOptions& options) {
  if (options.lane_limit > 0) return options.lane_limit;
  return std::max<std::size_t>(1, options.cold_capacity / 4);
}

}  // namespace

WorkQueue::WorkQueue(WorkQueueOptions options)
    : options_(options), lane_limit_(lane_limit_of(options)), in_flight_(options.track_ids) {}

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
  if (job.lane != kNoLane) {
    if (job.row.ref.hold <= 0) job.lane = lanes_.lane_for(job.lane, job.row.ref.shard);
    Lane& lane = lanes_.at(job.lane, job.row.ref.shard);
    lane.expect(job.row.ref.seq);
    settle(lane);
  }
  check_out(job);
  return Admission::queued;
}

bool WorkQueue::admissible(const Job& job) const {
  return !stopped_ && job.epoch == epoch_ && room_locked(job.hot) > 0;
}

WorkQueue::Admission WorkQueue::begin(Job& job) {
  MutexLock lock(mutex_);
  if (stopped_ || job.epoch != epoch_) return Admission::full;
  check_in(job);
  if (Lane* lane = current_lane(job); lane != nullptr) lane->came(job.row.ref.seq);
  return place(job);
}

WorkQueue::Admission WorkQueue::place(Job& job) {
  if (job.lane == kNoLane) {
    ++load(job).queued;
    line_up({.job = std::move(job)});
    return Admission::queued;
  }
  if (job.row.ref.hold <= 0) job.lane = lanes_.lane_for(job.lane, job.row.ref.shard);
  Lane& lane = lanes_.at(job.lane, job.row.ref.shard);
  if (lanes_.behind_others(lane)) lane.hold();
  const bool was_held = lane.was_held(job);
  // Also while the lane is being looked at again: what was held now and then found behind a DEAD
  // event would not be met again.
  const bool park = options_.park && (lane.blocked() || (lane.in_doubt() && !was_held));
  if (was_held) lane.held_row_read();
  const bool first = !lane.held() && !lane.expects_before(job.row.ref.seq);
  if (!park && (was_held || (first && lane.jobs().size() < lane_limit_))) {
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
  // A job that was handed over counts for no shard any more.
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

LaneRead WorkQueue::next_lane(std::span<const Seq> read_through, Clock::Steady now) {
  MutexLock lock(mutex_);
  const std::size_t room = std::min(room_locked(false), lane_limit_);
  if (room == 0) return {};
  const Lane* lane = lanes_.next_readable(read_through, now);
  if (lane == nullptr) return {};
  // Rows that it gave back earlier and that are not acknowledged yet come first. Of a lane whose
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
  if (page.saw_first) lane->first_row_seen();
  lane->read_after(page.open_after);
  const bool freed = lanes_.was_rechecked(*lane) && !page.blocked;
  if (page.blocked) {
    lanes_.block(*lane);
  } else if (page.due) {
    lane->read_not_before(*page.due);
  } else if (!page.more && lane->holds_pending() == 0 && !lane->expects_any()) {
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

// --- Work ---

void WorkQueue::line_up(Ticket ticket) {
  (ticket.first().hot ? hot_ : cold_).push_back(std::move(ticket));
  if (!reading_quietly_) call_worker();
}

// Wakes a worker, unless one is on its way already: that one will call on.
void WorkQueue::call_worker() {
  if (idle_ == 0 || waking_ > 0) return;
  ++waking_;
  work_.notify_one();
}

bool WorkQueue::take(Work& work) {
  work.poll = false;
  work.postpone = false;
  work.jobs.clear();
  MutexLock lock(mutex_);
  for (;;) {
    if (stopped_) return false;
    Ticket ticket;
    if (paused_ ? poll_while_paused() : should_poll(false)) {
      work.poll = true;
    } else if (!paused_ && pop_ticket(ticket)) {
      if (!start(std::move(ticket), work)) continue;
    } else if (!paused_ && should_poll(true)) {
      work.poll = true;
    } else {
      wait_for_work();
      continue;
    }
    // What this one leaves undone, an idle one may do: a read or a call may
    // take its time.
    if (work.poll) {
      polling_ = true;
      poll_requested_ = false;
    }
    if (!paused_ && (in_line() > 0 || should_poll(true))) call_worker();
    return true;
  }
}

void WorkQueue::wait_for_work() {
  announce_quiet();
  ++idle_;
  work_.wait(mutex_);
  --idle_;
  if (waking_ > 0) --waking_;
}

bool WorkQueue::pop_ticket(Ticket& ticket) {
  if (hot_.empty() && cold_.empty()) return false;
  bool hot = cold_.empty();
  if (!hot_.empty() && !cold_.empty()) {
    hot = turn_ < 2;
    turn_ = (turn_ + 1) % 3;
  }
  std::deque<Ticket>& queue = hot ? hot_ : cold_;
  ticket = std::move(queue.front());
  queue.pop_front();
  return true;
}

bool WorkQueue::start(Ticket ticket, Work& work) {
  Breaker* route = ticket.first().route;
  if (route != nullptr && !route->may_start()) {
    // A poison candidate that waited here would keep all others waiting for its group.
    if (!ticket.first().candidate && !in_the_way(ticket.first().hot)) {
      parked_[route].push_back(std::move(ticket));
      return false;
    }
    work.postpone = true;
    take_first(ticket, work);
    return true;
  }
  take_first(ticket, work);
  if (route != nullptr) {
    route->started();
    if (route->route().batch) gather(ticket, work);
  }
  return true;
}

// Whether events that wait here for an open listener keep out others: half of
// the queue is theirs. A stack with one listener has no others.
bool WorkQueue::in_the_way(bool hot) const {
  const std::size_t capacity = hot ? options_.hot_capacity : options_.cold_capacity;
  return options_.routes > 1 && room_locked(hot) * 2 < capacity;
}

void WorkQueue::take_first(Ticket& ticket, Work& work) {
  Job& job = ticket.first();
  --load(job).queued;
  ++running_;
  check_out(job);
  work.jobs.push_back(ticket.lane != nullptr ? ticket.lane->start_first() : std::move(job));
}

// Fills up a batch with what comes next for the same listener: from the lane,
// then from those who stand in line behind it.
void WorkQueue::gather(Ticket& ticket, Work& work) {
  const Breaker* route = work.jobs.front().route;
  const std::size_t limit = route->route().options.max_batch;
  std::deque<Ticket>& queue = work.jobs.front().hot ? hot_ : cold_;
  Ticket next = std::move(ticket);
  for (;;) {
    while (next.lane != nullptr && !next.lane->jobs().empty() && work.jobs.size() < limit &&
           next.first().route == route) {
      take_first(next, work);
    }
    if (work.jobs.size() >= limit || queue.empty() || queue.front().first().route != route) return;
    next = std::move(queue.front());
    queue.pop_front();
    take_first(next, work);
  }
}

WorkQueue::Followers WorkQueue::finish(std::span<Completion> finished, Clock::Steady now) {
  Followers followers;
  MutexLock lock(mutex_);
  end_call(finished, followers, now);
  return leave_lanes(finished, std::move(followers), now);
}

void WorkQueue::end_call(std::span<const Completion> finished, Followers& followers,
                         Clock::Steady now) {
  Breaker* route = finished.front().job.route;
  if (route == nullptr) return;
  const bool unavailable = std::any_of(finished.begin(), finished.end(), [](const Completion& one) {
    return one.decision.unavailable;
  });
  const bool was_closed = route->closed();
  if (in_flight_.is_hung(finished.front().job.row.event.id())) route->returns();
  const bool called = std::any_of(finished.begin(), finished.end(), [](const Completion& one) {
    return one.decision.kind != Kind::drop;
  });
  if (!called) {
    route->not_called();
  } else if (unavailable) {
    route->unavailable(now);
    parked_.try_emplace(route);  // tick() ends the pause, even if nothing waits by then
    followers.paused = was_closed;
  } else {
    route->answered();
    if (!was_closed) unpark(route);
    followers.closed_again = !was_closed && route->closed();
  }
}

WorkQueue::Followers WorkQueue::postponed(std::span<Completion> finished, Clock::Steady now) {
  MutexLock lock(mutex_);
  return leave_lanes(finished, {}, now);
}

WorkQueue::Followers WorkQueue::leave_lanes(std::span<Completion> finished, Followers followers,
                                            Clock::Steady now) {
  running_ -= finished.size();
  if (in_flight_.hung() > 0) {
    for (Completion& one : finished) returned(one.job);
  }
  for (Completion& one : finished) leave_lane(one, followers);
  // From the last to the first, so that the first stands in front again.
  for (auto one = finished.rbegin(); one != finished.rend(); ++one) {
    if (one->decision.kind == Kind::again) take_back(one->job);
  }
  for (const Completion& one : finished) {
    const Kind kind = one.decision.kind;
    if (kind == Kind::again || kind == Kind::hold) continue;  // moved away
    if (Lane* lane = current_lane(one.job); lane != nullptr) settle(*lane);
  }
  poll_for_lanes(now);
  announce_quiet();
  return followers;
}

void WorkQueue::leave_lane(Completion& finished, Followers& followers) {
  Job& job = finished.job;
  Kind& kind = finished.decision.kind;
  if (job.epoch != epoch_) {
    if (kind != Kind::again && kind != Kind::drop) ++followers.stale;
    kind = Kind::drop;
  }
  Lane* lane = current_lane(job);
  if (lane == nullptr) return;

  lane->end_call();
  if (kind == Kind::drop) return;
  if (lane->frozen() && kind != Kind::done) {
    // Of a batch, behind one that failed. Those that were not in it stand behind this one.
    kind = Kind::hold;
    check_in(job);
    push_held(*lane, job, followers);
    push_jobs_held(*lane, followers);
  } else if (kind == Kind::done) {
    lane->head_finished();
  } else if (kind == Kind::skip) {
    lane->head_finished();
    lane->await_ack();
  } else if (kind == Kind::wait || kind == Kind::block) {
    lane->head_failed();
    lane->await_ack();
    lane->hold();
    if (kind == Kind::block) lanes_.block(*lane);
    push_jobs_held(*lane, followers);
  }
}

void WorkQueue::push_jobs_held(Lane& lane, Followers& followers) {
  for (Job& job : lane.take_jobs()) {
    --load(job).queued;
    push_held(lane, job, followers);
  }
}

void WorkQueue::push_held(Lane& lane, Job& job, Followers& followers) {
  lane.hold();
  if (lane.was_held(job)) {
    remove(job);
    lane.held_row_left();
    followers.dropped.push_back(std::move(job));
  } else {
    lane.hold_submitted();
    check_out(job);
    const bool park = options_.park && lane.blocked();
    (park ? followers.park : followers.held).push_back(std::move(job));
  }
}

std::vector<Job> WorkQueue::acked(std::span<Completion> completions, Clock::Steady now) {
  std::vector<Job> not_ours;
  MutexLock lock(mutex_);
  for (Completion& completion : completions) {
    const bool reclaimed = completion.job.epoch != epoch_;
    if (reclaimed && completion.stale) {
      not_ours.push_back(std::move(completion.job));
      continue;
    }
    // Before its lane goes on: a reader of that must find it gone. A reader in the new lease may
    // have passed a reclaimed one.
    remove(completion.job);
    if (reclaimed) pass_over(completion.job.row.ref);
    check_in(completion.job);
    Lane* lane = current_lane(completion.job);
    if (lane == nullptr) continue;
    const bool was_held = lane->was_held(completion.job);
    const Kind kind = completion.decision.kind;
    if (was_held && kind != Kind::begin) lane->held_row_left();
    switch (kind) {
      case Kind::wait:
      case Kind::skip:
      case Kind::block:
        lane->acked(completion.due);
        if (completion.stale && lane->blocked()) {
          // Somebody else has finished it: no DEAD event stands first.
          lanes_.unblock(lane);
          continue;
        }
        break;
      case Kind::hold:
        lane->hold_acked();
        break;
      case Kind::begin:
        lane->came(completion.job.row.ref.seq);
        break;
      case Kind::done:
      case Kind::hand_over:  // see handed_over()
      case Kind::again:      // these two are no updates
      case Kind::drop:
        break;
    }
    settle(*lane);
  }
  poll_for_lanes(now);
  if (should_poll(true)) call_worker();
  announce_quiet();
  check_rest();
  return not_ours;
}

// Notes on events in flight go with the last of them: any that stay would hold up their
// lanes for ever, or fill the memory.
void WorkQueue::check_rest() const {
  if (hot_load_.held + cold_load_.held > 0) return;
  assert(held_bytes_ == 0 && running_ == 0 && in_line() == 0);
  assert(in_flight_.at_rest());
  // close() forgets the lanes while updates of theirs are on their way.
  assert(lanes_forgotten_ || lanes_.at_rest());
}

// --- Reading ---

void WorkQueue::enable_polling(bool enabled) {
  MutexLock lock(mutex_);
  polling_enabled_ = enabled;
  has_reader_ = has_reader_ || enabled;
  if (enabled) call_worker();
}

void WorkQueue::request_poll() {
  MutexLock lock(mutex_);
  ask_for_poll();
}

void WorkQueue::ask_for_poll() {
  poll_requested_ = true;
  if (paused_ ? poll_while_paused() : should_poll(true)) call_worker();
}

// A paused engine has no room, so a round brings nothing; but shards change hands
// in rounds.
bool WorkQueue::poll_while_paused() const {
  return polling_enabled_ && poll_requested_ && !polling_;
}

// A worker with nothing else to do reads whenever it was asked to and there is
// room; one with work to do reads first if the queue is about to run dry.
bool WorkQueue::should_poll(bool idle) const {
  if (!polling_enabled_ || !poll_requested_ || polling_) return false;
  const std::size_t room = room_locked(false);
  if (idle) return room > 0;
  return room >= options_.batch && cold_load_.queued < options_.batch / 2;
}

// A lane wants its rows back: that needs a read. (One that is due later is the
// timer's business.)
void WorkQueue::poll_for_lanes(Clock::Steady now) {
  const auto due = lanes_.next_due();
  if (due && *due <= now) poll_requested_ = true;
}

void WorkQueue::poll_done(bool more) {
  MutexLock lock(mutex_);
  polling_ = false;
  if (more && !paused_) poll_requested_ = true;
  announce_quiet();
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

void WorkQueue::announce_quiet() {
  if (draining_ && running_ == 0 && !polling_) quiet_.notify_all();
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

}  // namespace outbox::internal
