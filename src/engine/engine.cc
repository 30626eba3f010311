#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/bounded.h"
#include "base/outage.h"
#include "engine/engine_options.h"
#include "model/lane_key.h"
#include "model/outcome.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using Kind = Decision::Kind;

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

// What a crash delivers twice grows by it, and capacity comes back as much later: so it is little.
Collect collected(const QueueOptions& queue) {
  constexpr std::size_t kMost = 32;
  constexpr std::size_t kPart = 8;
  return {.time = std::chrono::milliseconds{5},
          .updates = std::min(kMost, std::min(queue.hot_capacity, queue.cold_capacity) / kPart),
          .bytes = queue.capacity_bytes / kPart};
}

}  // namespace

Engine::Engine(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options,
               const std::optional<PollerOptions>& polling)
    : instance_(std::move(instance)),
      listeners_(std::move(listeners)),
      options_(checked(std::move(options))),
      log_(options_.log),
      clock_(*options_.clock),
      tracker_(options_.tracker),
      queue_(queue_options(options_, polling, listeners_.routes().size())),
      completer_(instance_, *this, clock_, log_, collected(options_.queue)),
      workers_(*this, queue_, completer_, options_) {
  const BreakerOptions& pauses = options_.breaker;
  for (const Route* route : listeners_.routes()) {
    if (options_.ordering == Ordering::total && route->options.ordering == Ordering::none) {
      throw MisuseError("dispatcher: the listener of " + route->name +
                        " asks for no order, but all events are to be delivered in one order");
    }
    breakers_.emplace(route, std::make_unique<Breaker>(*route, options_.workers, pauses));
  }
  if (polling) {
    poller_ = std::make_unique<Poller>(instance_, *this, *polling);
  } else {
    keeper_ = std::make_unique<LeaseKeeper>(instance_, *this, clock_, log_);
  }
}

Engine::~Engine() { close(); }

void Engine::leave_lease_to_others() {
  keeper_ = std::make_unique<LeaseKeeper>(nullptr, *this, clock_, log_);
}

void Engine::start() {
  if (keeper_) keeper_->renew();
  completer_.start();
  workers_.start();
  if (poller_) {
    queue_.enable_polling(true);
    poller_->start();
  } else {
    keeper_->start();
  }
  takes_commits_ = true;
}

void Engine::watch(Store& store) {
  watch_ = store.watch([this] { poller_->committed(); });
  told_ = watch_.get();
  if (watch_ || !store.capabilities().many_processes) return;
  log_({LogLevel::info,
        "commits_not_watched",
        "cannot watch commits of other processes on " + store.description() +
            ": they are found by polling",
        {{"store", store.description()}}});
}

// --- The end ---

void Engine::close(std::optional<std::chrono::milliseconds> limit) {
  takes_commits_ = false;
  told_ = nullptr;
  watch_.reset();
  queue_.enable_polling(false);  // first: while closing there is no room for what is read
  if (closing_.exchange(true)) return;
  // The lease keeper goes on renewing the lease while the workers finish what they have.
  const std::vector<RowRef> unstarted = drain(bounded(limit.value_or(options_.timeouts.drain)));
  if (!poller_) {
    keeper_->stop();
    return;
  }
  poller_->stop();
  try {
    if (options_.lock_timeout && !unstarted.empty()) instance_->unclaim(unstarted);
    instance_->leave();
  } catch (const std::exception& error) {
    log_({LogLevel::warning,
          "lease_not_released",
          std::string("closing: cannot release the lease: ") + error.what(),
          {{"error", error.what()}}});
  }
}

// Returns the rows that were not started.
std::vector<RowRef> Engine::drain(std::chrono::milliseconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  if (!workers_.none() && !queue_.drain(deadline)) {
    log_({LogLevel::warning,
          "drain_timeout",
          "closing: events were still queued or running after " + std::to_string(limit.count()) +
              " ms; what was not started stays pending",
          {{"drain_ms", limit.count()}}});
  }
  std::vector<RowRef> unstarted;
  std::vector<StatusUpdate> innocent;
  for (const Job& job : queue_.drop_all()) {
    unstarted.push_back(job.row.ref);
    if (!job.candidate) continue;
    innocent.push_back({.row = job.row.ref,
                        .event_id = job.row.event.id(),
                        .kind = StatusUpdate::Kind::crashes,
                        .crashes = job.row.crashes});
  }
  queue_.stop();
  {
    MutexLock lock(lease_mutex_);
    stopping_ = true;
    lease_changed_.notify_all();
  }
  workers_.stop();
  completer_.close(SteadyClock::now() + std::max(limit, std::chrono::milliseconds{1'000}));
  try {
    if (!innocent.empty()) instance_->apply(epoch_, innocent);
  } catch (const std::exception& error) {
    log_({LogLevel::warning,
          "crash_count_not_reset",
          std::string("closing: cannot reset the crash count of ") +
              std::to_string(innocent.size()) + " events: " + error.what(),
          {{"events", innocent.size()}, {"error", error.what()}}});
  }
  return unstarted;
}

// --- Admission ---

Job Engine::job_of(Row row, bool hot, std::int64_t epoch) const {
  Job job{.row = std::move(row), .hot = hot, .epoch = epoch};
  const Event& event = job.row.event;
  const Route* route = listeners_.find(event.aggregate_type(), event.type());
  if (route != nullptr) job.route = breakers_.at(route).get();
  const bool ordered = options_.ordering == Ordering::per_aggregate &&
                       (route == nullptr || route->options.ordering == Ordering::per_aggregate);
  if (ordered) job.lane = lane_key(event.aggregate_type(), event.aggregate_id());
  if (options_.ordering == Ordering::total) job.lane = kOnlyLane;
  // Less a tenth, for a clock of the database that runs ahead of ours.
  if (options_.lock_timeout) job.expires = clock_.steady() + *options_.lock_timeout * 9 / 10;
  return job;
}

bool Engine::reserve(const Event& event) {
  return tracker_ ? tracker_->try_acquire(event.id()) : queue_.reserve_event(event.id());
}

bool Engine::enqueue_reserved(Row row) {
  if (closing_ || !direct(row.ref.shard)) return false;
  Job job = job_of(std::move(row), true, epoch_);
  return admitted(job, queue_.admit_reserved(job));
}

void Engine::give_up(const Event& event) {
  if (tracker_) tracker_->release(event.id());
  queue_.give_up_event(event.id());
}

void Engine::leave_to_reader(const Event& event, const RowRef& row) {
  if (tracker_) tracker_->release(event.id());
  queue_.leave_to_reader(event.id(), row);
}

bool Engine::enqueue(Row row, bool hot) {
  // Without a lease it could not be updated.
  const std::int64_t epoch = epoch_;
  if (closing_ || epoch == 0) return false;
  if (!acquire(row)) return true;
  Job job = job_of(std::move(row), hot, epoch);
  const WorkQueue::Admission admission = queue_.admit_direct(job);
  if (admission == WorkQueue::Admission::in_flight || admitted(job, admission)) return true;
  release(job);
  return false;
}

bool Engine::admitted(Job& job, WorkQueue::Admission admission) {
  const bool hot = job.hot;
  switch (admission) {
    case WorkQueue::Admission::full:
    case WorkQueue::Admission::in_flight:
      return false;
    case WorkQueue::Admission::hold:
      hold(std::move(job));
      break;
    case WorkQueue::Admission::park:
      park(std::move(job));
      break;
    case WorkQueue::Admission::queued:
      break;
  }
  count(hot ? Counter::hot_enqueued : Counter::cold_enqueued);
  return true;
}

void Engine::hold(Job job) {
  const Row& row = job.row;
  StatusUpdate update{.row = row.ref,
                      .event_id = row.event.id(),
                      .kind = StatusUpdate::Kind::hold,
                      .lane = job.lane};
  if (job.candidate) {
    // Its count was raised for a delivery that does not begin now, and is raised again then.
    update.kind = StatusUpdate::Kind::defer;
    update.crashes = row.crashes;
    update.progress = row.progress;
  }
  completer_.submit({.job = std::move(job),
                     .decision = {.kind = Decision::Kind::hold, .update = std::move(update)}});
}

void Engine::park(Job job) {
  StatusUpdate update{.row = job.row.ref,
                      .event_id = job.row.event.id(),
                      .kind = StatusUpdate::Kind::dead,
                      .lane = job.lane,
                      .attempts = job.row.attempts,
                      .error = "parked: an earlier event of its aggregate is dead",
                      .progress = job.row.progress};
  completer_.submit({.job = std::move(job),
                     .decision = {.kind = Decision::Kind::hold, .update = std::move(update)}});
}

void Engine::release(const Job& job) {
  if (tracker_) tracker_->release(job.row.event.id());
}

// --- What a poller brings ---

std::size_t Engine::room() { return cold_room(); }

// With a tracker of the user's a read cannot tell which of its rows are in flight: these count as
// well.
std::size_t Engine::room_bytes() {
  return queue_.room_bytes() + (tracker_ ? queue_.held_bytes() : 0);
}

// Rows that a read may meet and pass over: also those that are reserved, and not in the queue yet.
std::size_t Engine::in_flight() { return tracker_ ? queue_.in_flight() : queue_.known(); }

void Engine::read_begins(std::int64_t epoch) {
  reading_epoch_ = epoch;
  reading_ = true;
  queue_.read_begins();
}

void Engine::read_ends() {
  reading_ = false;
  queue_.read_ends();
  give_back_claims();
}

// Of rows that were in flight when they were claimed, and are not any more.
void Engine::give_back_claims() {
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
bool Engine::acquire(const Row& row) {
  return !row.without_payload && (!tracker_ || tracker_->try_acquire(row.event.id()));
}

// False: the round ends, which gives the row back.
bool Engine::meet_in_flight(const Row& row) {
  if (!options_.lock_timeout) return true;
  // Its retry has been acknowledged, and was claimed before the queue heard of that; or its call
  // hangs, and all claims were given up since. Nobody works on this claim: unless it is given back,
  // the row waits until it expires. But not yet, for the next read would claim it again.
  if (!poller_) return false;
  claimed_in_flight_.emplace_back(row.event.id(), row.ref);
  return true;
}

bool Engine::handle(Row row) {
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

std::size_t Engine::deliver_isolated(std::vector<Row> rows) {
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
void Engine::begin_isolated(Job job) {
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

void Engine::restore(const HeldLane& lane) { queue_.restore(lane, clock_.steady()); }

LaneRead Engine::next_lane(std::span<const Seq> read_through) {
  if (closing_) return {};
  return queue_.next_lane(read_through, clock_.steady());
}

void Engine::recheck_blocked() { queue_.recheck_blocked(kRecheckAtOnce); }

// After a change from `block` or `park` to `skip` a lane may begin with DEAD
// events that nobody waits for; they leave it, so that no later read meets them.
// False if there is no room for it now.
bool Engine::unblock(LaneKey lane, Row row, std::vector<Completion>& completions) {
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

void Engine::load_lane(const LaneRead& lane, Rows rows, bool candidate) {
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
  page.saw_first = row != rows.rows.begin() || page.blocked || page.due || !page.more;
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

bool Engine::request_poll() {
  if (!poller_) return false;
  queue_.request_poll();
  return true;
}

// --- The lease ---

// Whether all of these are still ours. While the lease may have ended, or has, and
// the keeper has not said so, the worker waits: if it is renewed after all, the events
// must not have been dropped, for the next ones of their lanes would pass them.
bool Engine::may_deliver(const std::vector<Job>& jobs) {
  {
    MutexLock lock(lease_mutex_);
    const std::int64_t epoch = jobs.front().epoch;
    while (epoch == epoch_ && (clock_.steady() >= deadline_ || fenced_) && !stopping_) {
      lease_changed_.wait(lease_mutex_);
    }
    if (jobs.front().epoch != epoch_ || stopping_) return false;
  }
  const Clock::Steady now = clock_.steady();
  return std::all_of(jobs.begin(), jobs.end(), [&](const Job& job) { return now < job.expires; });
}

void Engine::on_lease(const Lease& lease, Clock::Steady valid_until) {
  const bool changed = lease.epoch != epoch_;
  // Before a shard that is being given up is looked at; see drained().
  queue_.own(options_.lock_timeout ? std::nullopt : std::optional(lease.shards));
  std::vector<Job> dropped;
  if (changed) dropped = queue_.enter(lease.epoch, &completer_);
  await_updates(draining_, !lease.draining.empty());
  {
    // After the queue: a worker that finds the lease of its job ended must hear the same there.
    MutexLock lock(lease_mutex_);
    deadline_ = valid_until;
    epoch_ = lease.epoch;
    if (changed) fenced_ = false;
    lease_changed_.notify_all();
  }
  for (const Job& job : dropped) release(job);
}

// What is being drained or isolated waits until nothing of it is in flight.
void Engine::await_updates(std::optional<Completer::Awaiting>& awaiting, bool on) {
  if (!on) {
    awaiting.reset();
  } else if (!awaiting) {
    awaiting.emplace(completer_);
  }
}

void Engine::isolate(bool on) {
  isolating_ = on;
  await_updates(candidates_, on);
}

// Others deliver by now what is still in the queue.
void Engine::on_fenced(std::int64_t epoch) {
  {
    MutexLock lock(lease_mutex_);
    if (epoch == epoch_) fenced_ = true;
  }
  poller_ ? poller_->fenced(epoch) : keeper_->wake();
}

// Events not begun are left to the next owner, and after a while so are those that hang, or whose
// update is refused; the engine waits for running calls.
bool Engine::drained(int shard) {
  for (const Job& job : queue_.shed(shard)) release(job);
  workers_.hand_over_hung(shard, epoch_);
  completer_.give_up(shard, clock_.steady() - options_.timeouts.stalled);
  return queue_.forget_shard(shard);
}

bool Engine::able() { return !workers_.all_hang(); }

std::string Engine::stalled() {
  const std::int64_t epoch = epoch_;
  if (epoch == 0 || closing_) return {};
  {
    MutexLock lock(lease_mutex_);
    if (fenced_) {
      return "the store no longer knows epoch " + std::to_string(epoch) +
             ": another instance owns its events, or a connection leads to another "
             "server";
    }
  }
  // Longer each time: what the next lease delivers may be delivered for the second time.
  const auto limit = bounded(options_.timeouts.stalled * (1 << std::min(stalls_.load(), 6)));
  const Clock::Steady now = clock_.steady();
  const auto waiting = completer_.waiting_since();
  // Where a lease cannot expire, nobody else could update them either.
  if (instance_->lease_duration() && waiting && now - *waiting > limit) {
    ++stalls_;
    const auto outage = completer_.outage().report();
    return "no update has been acknowledged for " + seconds_text(now - *waiting) +
           (outage ? ": " + outage->what : std::string());
  }
  if (workers_.all_hang(limit) && has_waiting()) {
    workers_.hand_over_hung(std::nullopt, epoch);
    if (!queue_.hung_are_handed_over()) return {};  // their updates are on their way
    ++stalls_;
    return "every worker is inside a call that does not return";
  }
  return {};
}

// Whether there is work that no worker has begun. If none is left who could look, it is
// looked for here: without any, there is nothing to give up for.
bool Engine::has_waiting() {
  if (!queue_.has_waiting() && poller_ && queue_.begin_poll()) {
    queue_.poll_done(poller_->read());
  }
  return queue_.has_waiting();
}

// --- Time ---

std::optional<Clock::Steady> Engine::tick() {
  std::optional<Clock::Steady> next = queue_.tick(clock_.steady());
  if (workers_.report_hung(next)) tell_if_emptied();
  return next;
}

void Engine::timer_changed() { poller_ ? poller_->timer_changed() : keeper_->wake(); }

// Poison candidates wait for all that is in flight, but not for a call that hangs, nor for an
// update that is refused.
void Engine::tell_if_emptied() {
  if (poller_ && active() == 0) poller_->emptied();
}

// --- Completion ---

void Engine::on_acked(std::span<Completion> completions) {
  // Reported first, so that a caller who sees the engine idle sees the counts as well.
  for (const Completion& completion : completions) report(completion);
  // To hand over what hangs is no progress.
  if (stalls_ > 0 && std::any_of(completions.begin(), completions.end(), [](const Completion& one) {
        return !one.stale && one.decision.kind != Kind::hand_over;
      })) {
    stalls_ = 0;
  }

  const Clock::Steady now = clock_.steady();
  std::vector<Clock::Steady> rows_due;
  bool waits = false;
  std::vector<Completion> acked;
  std::vector<Job> candidates;
  acked.reserve(completions.size());
  for (Completion& completion : completions) {
    const StatusUpdate& update = completion.decision.update;
    if (completion.decision.kind == Kind::hand_over) {
      // Its call is still running, or has returned and updated it by itself.
      queue_.handed_over(completion.job, true);
      continue;
    }
    if (update.kind == StatusUpdate::Kind::crashes && !completion.stale) {
      candidates.push_back(std::move(completion.job));
      continue;
    }
    if (completion.stale && completion.job.epoch != epoch_) {
      acked.push_back(std::move(completion));  // not ours any more, as the queue will say
      continue;
    }
    // Before anything else may look for the row again; see InFlight.
    release(completion.job);
    completion.due = now + update.delay;
    const bool alone = update.lane == kNoLane;
    switch (update.kind) {
      case StatusUpdate::Kind::hold:
        if (alone) completion.due = now + completion.job.row.available_in;
        [[fallthrough]];
      case StatusUpdate::Kind::retry:
      case StatusUpdate::Kind::defer:
        if (alone) rows_due.push_back(completion.due);
        waits = true;
        break;
      case StatusUpdate::Kind::dead:
        // An operator may have replayed it already, and a reader passed it while it was in flight.
        if (alone) rows_due.push_back(now);
        waits = waits || !alone;  // for an operator: see Reader::next_due()
        break;
      case StatusUpdate::Kind::done:
      case StatusUpdate::Kind::crashes:
      case StatusUpdate::Kind::unblock:
        break;
    }
    acked.push_back(std::move(completion));
  }
  give_back(queue_.acked(acked, now));
  for (Job& job : candidates) begin_isolated(std::move(job));

  publish_gauges();
  tell_if_emptied();
  if (!rows_due.empty() && poller_) poller_->rows_due(rows_due);
  if (waits) timer_changed();
}

void Engine::give_back(std::vector<Job> jobs) {
  for (Job& job : jobs) {
    if (queue_.reclaim(job)) {
      hold(std::move(job));
      continue;
    }
    release(job);
    queue_.let_go(job);
  }
}

void Engine::report(const Completion& completion) const {
  if (completion.stale) {
    count(Counter::stale_updates);
    return;
  }
  switch (completion.decision.update.kind) {
    case StatusUpdate::Kind::done:
      count(Counter::success);
      if (options_.metrics) {
        options_.metrics->observe(Timing::commit_to_done,
                                  clock_.now() - completion.job.row.event.occurred_at());
      }
      break;
    case StatusUpdate::Kind::retry:
      count(Counter::failure);
      break;
    case StatusUpdate::Kind::defer:
      if (completion.decision.kind != Kind::hold) count(Counter::deferred);
      break;
    case StatusUpdate::Kind::dead:
      report_dead(completion);
      break;
    case StatusUpdate::Kind::hold:
    case StatusUpdate::Kind::crashes:
    case StatusUpdate::Kind::unblock:
      break;
  }
}

void Engine::report_dead(const Completion& completion) const {
  count(Counter::dead);
  const Event& event = completion.job.row.event;
  const StatusUpdate& update = completion.decision.update;
  log_({LogLevel::error,
        "event_dead",
        "event " + event.id() + " (" + event.aggregate_type() + "/" + event.type() +
            ") is dead after " + std::to_string(update.attempts) + " attempts: " + update.error,
        {{"event", event.id()},
         {"aggregate_type", event.aggregate_type()},
         {"type", event.type()},
         {"attempts", update.attempts},
         {"error", update.error}}});
  if (!options_.dead.on_event) return;
  try {
    options_.dead.on_event(event, update.error);
  } catch (...) {
    const std::string error = outcome_of(std::current_exception()).error();
    log_({LogLevel::error,
          "on_dead_failed",
          "the on-dead callback failed for event " + event.id() + ": " + error,
          {{"event", event.id()}, {"error", error}}});
  }
}

void Engine::count(Counter counter, std::uint64_t n) const {
  if (options_.metrics) options_.metrics->add(counter, n);
}

void Engine::publish_gauges() const {
  if (!options_.metrics) return;
  options_.metrics->set(Gauge::hot_depth, static_cast<double>(queue_.depth(true)));
  options_.metrics->set(Gauge::cold_depth, static_cast<double>(queue_.depth(false)));
  options_.metrics->set(Gauge::in_flight, static_cast<double>(queue_.in_flight()));
}

// --- Operators ---

Engine::Direct Engine::direct_path() const {
  if (options_.ordering != Ordering::none || !instance_->takes_unread()) return Direct::none;
  return options_.lock_timeout ? Direct::claimed : Direct::all;
}

void Engine::pause(bool on) {
  queue_.pause(on);
  log_({LogLevel::info, on ? "delivery_paused" : "delivery_resumed",
        on ? "delivery is paused" : "delivery is resumed"});
}

void Engine::pause(std::string_view aggregate_type, std::string_view type, bool on) {
  const Route* route = listeners_.find(aggregate_type, type);
  if (route == nullptr) {
    throw MisuseError("nobody listens to " + std::string(aggregate_type) + "/" + std::string(type) +
                      ": there is nothing to pause or resume");
  }
  queue_.pause(*breakers_.at(route), on, clock_.steady());
  log_({LogLevel::info,
        on ? "listener_paused" : "listener_resumed",
        "the listener of " + route->name + (on ? " is paused" : " is resumed"),
        {{"listener", route->name}}});
  if (!on) wake();
}

void Engine::wake() {
  poller_->timer_changed();
  poller_->look_everywhere();
}

void Engine::examine(Health& health) const {
  const auto look_at = [&](const Outage& outage, const std::string& what) {
    const auto report = outage.report();
    if (!report) return;
    health.ready = false;
    health.reasons.push_back(what + " for " + seconds_text(clock_.steady() - report->since) + ": " +
                             report->what);
  };
  look_at(poller_->renewing(), "the lease could not be renewed");
  look_at(poller_->reading(), "events could not be read");
  look_at(completer_.outage(), "events could not be updated");
  look_at(poller_->given_up(), "this instance has given up its lease, and delivers nothing");
  if (!poller_->owner()) health.reasons.emplace_back("standby: this instance owns no events");

  const auto add = [&](std::vector<std::string> notes) {
    for (std::string& note : notes) health.reasons.push_back(std::move(note));
  };
  if (queue_.paused()) health.reasons.emplace_back("delivery is paused by an operator");
  if (isolating_) {
    health.reasons.emplace_back("poison candidates are delivered alone; the other events wait");
  }
  add(completer_.refused());
  queue_.inspect(breakers_, [&](const auto& entry) {
    const auto& [route, breaker] = entry;
    if (breaker->held()) {
      health.reasons.push_back("the listener of " + route->name + " is paused by an operator");
    } else if (!breaker->closed()) {
      health.reasons.push_back("the listener of " + route->name + " is unavailable");
    }
  });
  add(workers_.unrouted());
  add(workers_.hung_calls());
  if (workers_.all_hang()) {
    health.live = false;
    health.ready = false;
    health.reasons.emplace_back("every worker is inside a call that does not return");
  }
}

}  // namespace outbox::internal
