#include "engine/core.h"

#include <algorithm>
#include <utility>

#include "base/bounded.h"
#include "base/thread.h"
#include "model/lane_key.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

DispatcherOptions checked(DispatcherOptions options) {
  const auto refuse = [](const std::string& what) { throw MisuseError("dispatcher: " + what); };
  if (options.workers < 1)
    refuse("workers must be at least 1, got " + std::to_string(options.workers));
  if (options.queue.hot_capacity == 0) refuse("queue.hot_capacity must be at least 1");
  if (options.queue.cold_capacity == 0) refuse("queue.cold_capacity must be at least 1");
  if (options.queue.capacity_bytes == 0) refuse("queue.capacity_bytes must be at least 1");
  if (options.retry.max_attempts < 1) {
    refuse("retry.max_attempts must be at least 1, got " +
           std::to_string(options.retry.max_attempts));
  }
  if (options.timeouts.drain.count() < 0) refuse("timeouts.drain must not be negative");
  if (options.timeouts.hung.count() <= 0) refuse("timeouts.hung must be positive");
  if (options.timeouts.stalled.count() <= 0) refuse("timeouts.stalled must be positive");
  if (options.breaker.pause.count() <= 0 || options.breaker.pause > options.breaker.max_pause) {
    refuse("breaker needs 0 < pause <= max_pause, got breaker.pause = " +
           std::to_string(options.breaker.pause.count()) +
           " ms, breaker.max_pause = " + std::to_string(options.breaker.max_pause.count()) + " ms");
  }
  options.timeouts.drain = bounded(options.timeouts.drain);
  options.timeouts.hung = bounded(options.timeouts.hung);
  options.timeouts.stalled = bounded(options.timeouts.stalled);
  options.breaker.pause = bounded(options.breaker.pause);
  options.breaker.max_pause = bounded(options.breaker.max_pause);
  if (options.lock_timeout) options.lock_timeout = bounded(*options.lock_timeout);
  if (!options.retry.policy) options.retry.policy = std::make_shared<ExponentialBackoff>();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

WorkQueueOptions queue_options(const DispatcherOptions& options, std::size_t batch,
                               std::size_t routes) {
  WorkQueueOptions result{.workers = options.workers,
                          .hot_capacity = options.queue.hot_capacity,
                          .cold_capacity = options.queue.cold_capacity,
                          .capacity_bytes = options.queue.capacity_bytes,
                          .batch = std::min(batch, options.queue.cold_capacity),
                          .park = options.dead.then == OnDead::park,
                          .routes = routes,
                          .track_ids = options.tracker == nullptr};
  // There is nobody that the only lane could keep out.
  if (options.ordering == Ordering::total) {
    result.lane_limit = options.queue.hot_capacity + options.queue.cold_capacity;
  }
  return result;
}

std::string name_of(const Breaker* route) {
  return route != nullptr ? route->route().name : "no event";
}

}  // namespace

Core::Core(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options,
           std::size_t batch)
    : instance_(std::move(instance)),
      listeners_(std::move(listeners)),
      options_(checked(std::move(options))),
      log_(options_.log),
      clock_(*options_.clock),
      tracker_(options_.tracker),
      queue_(queue_options(options_, batch, listeners_.routes().size())),
      deliverer_(options_.interceptors, log_),
      completer_(instance_,
                 {.acked = [this](std::span<Completion> done) { on_ack(done); },
                  .fenced = [this](std::int64_t epoch) { on_fenced(epoch); },
                  .refused = [this] { tell_if_emptied(); }},
                 clock_, log_) {
  const BreakerOptions& pauses = options_.breaker;
  for (const Route* route : listeners_.routes()) {
    if (options_.ordering == Ordering::total && route->options.ordering == Ordering::none) {
      throw MisuseError("dispatcher: the listener of " + route->name +
                        " asks for no order, but all events are to be delivered in one order");
    }
    breakers_.emplace(route, std::make_unique<Breaker>(*route, options_.workers, pauses));
  }
}

Core::~Core() { close(); }

void Core::set_events(CoreEvents events) { events_ = std::move(events); }

void Core::start() {
  completer_.start();
  for (int n = 0; n < options_.workers; ++n) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.thread = Thread([this, &worker, n] {
      const OwnThread own(this);
      name_this_thread("outbox-work-" + std::to_string(n));
      work(worker);
    });
  }
  if (events_.read) queue_.enable_polling(true);
}

// --- Admission ---

Job Core::job_of(Row row, bool hot, std::int64_t epoch) const {
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

bool Core::reserve(const Event& event) {
  return tracker_ ? tracker_->try_acquire(event.id()) : queue_.reserve_event(event.id());
}

bool Core::enqueue_reserved(Row row) {
  if (closing_ || !direct(row.ref.shard)) return false;
  Job job = job_of(std::move(row), true, epoch_);
  return admitted(job, queue_.admit_reserved(job));
}

void Core::give_up(const Event& event) {
  if (tracker_) tracker_->release(event.id());
  queue_.give_up_event(event.id());
}

void Core::leave_to_reader(const Event& event, const RowRef& row) {
  if (tracker_) tracker_->release(event.id());
  queue_.leave_to_reader(event.id(), row);
}

bool Core::enqueue(Row row, bool hot) {
  // Whoever owns nothing could not update it.
  const std::int64_t epoch = epoch_;
  if (closing_ || epoch == 0) return false;
  if (!acquire(row)) return true;
  Job job = job_of(std::move(row), hot, epoch);
  const WorkQueue::Admission admission = queue_.admit_direct(job);
  if (admission == WorkQueue::Admission::in_flight || admitted(job, admission)) return true;
  release(job);
  return false;
}

bool Core::admitted(Job& job, WorkQueue::Admission admission) {
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

void Core::hold(Job job) {
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

void Core::park(Job job) {
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

// To the tracker of the user, which is asked without any lock.
void Core::release(const Job& job) {
  if (tracker_) tracker_->release(job.row.event.id());
}

// --- Ownership and time ---

void Core::on_lease(const Lease& lease, Clock::Steady valid_until) {
  const bool changed = lease.epoch != epoch_;
  // Before a shard that is being given up is looked at; see drained().
  queue_.own(options_.lock_timeout ? std::nullopt : std::optional(lease.shards));
  std::vector<Job> dropped;
  if (changed) dropped = queue_.enter(lease.epoch, &completer_);
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

// Others deliver by now what is still in the queue.
void Core::on_fenced(std::int64_t epoch) {
  {
    MutexLock lock(lease_mutex_);
    if (epoch == epoch_) fenced_ = true;
  }
  if (events_.fenced) events_.fenced(epoch);
}

// What has not begun is for the next owner, and so is, after a while, what hangs, or whose
// update is refused; what runs is waited for.
bool Core::drained(int shard) {
  for (const Job& job : queue_.shed(shard)) release(job);
  hand_over_hung(shard);
  completer_.give_up(shard, clock_.steady() - options_.timeouts.stalled);
  return queue_.forget_shard(shard);
}

std::optional<Clock::Steady> Core::tick() {
  const Clock::Steady now = clock_.steady();
  std::optional<Clock::Steady> next = queue_.tick(now);
  bool hangs = false;
  for (const auto& worker : workers_) hangs = report_hung(*worker, now, next) || hangs;
  if (hangs) tell_if_emptied();
  return next;
}

// Poison candidates wait for all that is in flight, but not for a call that hangs, nor for an
// update that is refused.
void Core::tell_if_emptied() {
  if (events_.emptied && active() == 0) events_.emptied();
}

// --- Calls that hang, and engines that do not move ---

// True if this call has just passed the limit; else when it will.
bool Core::report_hung(Worker& worker, Clock::Steady now, std::optional<Clock::Steady>& next) {
  Call hung;
  {
    MutexLock lock(worker.mutex);
    Call& call = worker.call;
    if (!call.event || call.reported) return false;
    const Clock::Steady limit = call.since + options_.timeouts.hung;
    if (now < limit) {
      next = std::min(next.value_or(limit), limit);
      return false;
    }
    call.reported = true;
    hung = call;
    // With the worker's lock held: it cannot return before the queue knows.
    queue_.hangs(*call.jobs);
  }
  count(Counter::hung_calls);
  log_({LogLevel::error,
        "listener_hung",
        "the listener of " + name_of(hung.route) + " has been working on event " +
            hung.event->id() + " for more than " + std::to_string(options_.timeouts.hung.count()) +
            " ms and is still at it; its worker is lost until it returns",
        {{"listener", name_of(hung.route)},
         {"event", hung.event->id()},
         {"limit_ms", options_.timeouts.hung.count()}}});
  return true;
}

// Postpones events whose call hangs, by as long as it has taken so far: whoever owns
// their shard next holds them and their aggregates for that time. The call goes on.
void Core::hand_over_hung(std::optional<int> shard) {
  std::vector<Completion> updates;
  const std::int64_t epoch = epoch_;
  const Clock::Steady now = clock_.steady();
  for (const auto& worker : workers_) {
    MutexLock lock(worker->mutex);
    if (!worker->call.event || !worker->call.reported) continue;
    const auto taken =
        std::chrono::duration_cast<std::chrono::microseconds>(now - worker->call.since);
    for (std::size_t i = 0; i < worker->call.jobs->size(); ++i) {
      const Job& job = (*worker->call.jobs)[i];
      if ((shard && job.row.ref.shard != *shard) || !queue_.begin_hand_over(job)) continue;
      // In the present epoch: it may be a reclaimed one whose shard is ours again. (What the
      // call changes in its job, its progress, is not to be touched here.)
      Completion completion{.job = {.row = {.ref = job.row.ref, .event = job.row.event},
                                    .lane = job.lane,
                                    .epoch = epoch},
                            .decision = {.kind = Decision::Kind::hand_over}};
      completion.decision.update = {.row = job.row.ref,
                                    .event_id = job.row.event.id(),
                                    .kind = StatusUpdate::Kind::defer,
                                    .lane = job.lane,
                                    .attempts = job.row.attempts,
                                    .crashes = job.row.crashes,
                                    .delay = taken,
                                    .progress = worker->call.progress[i]};
      updates.push_back(std::move(completion));
    }
  }
  completer_.submit(std::move(updates));
}

// How many have been inside a call that hangs, for so much longer than allowed.
std::size_t Core::hung_workers(std::chrono::milliseconds longer) const {
  const Clock::Steady now = clock_.steady();
  std::size_t hung = 0;
  for (const auto& worker : workers_) {
    MutexLock lock(worker->mutex);
    if (worker->call.event && now >= worker->call.since + options_.timeouts.hung + longer) ++hung;
  }
  return hung;
}

bool Core::able() { return workers_.empty() || hung_workers({}) < workers_.size(); }

std::string Core::stalled() {
  const std::int64_t epoch = epoch_;
  if (epoch == 0 || closing_) return {};
  {
    MutexLock lock(lease_mutex_);
    if (fenced_) {
      return "the store does not know epoch " + std::to_string(epoch) +
             " any more: another instance owns its events, or a connection leads to another "
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
    const auto trouble = completer_.outage().report();
    return "no update has been acknowledged for " + seconds_text(now - *waiting) +
           (trouble ? ": " + trouble->what : std::string());
  }
  if (!workers_.empty() && hung_workers(limit) == workers_.size() && has_waiting()) {
    hand_over_hung(std::nullopt);
    if (!queue_.hung_are_handed_over()) return {};  // their updates are on their way
    ++stalls_;
    return "every worker is inside a call that does not return";
  }
  return {};
}

// Whether there is work that no worker has begun. If none is left who could look, it is
// looked for here: without any, there is nothing to give up for.
bool Core::has_waiting() {
  if (!queue_.has_waiting() && events_.read && queue_.begin_poll()) {
    queue_.poll_done(events_.read());
  }
  return queue_.has_waiting();
}

// --- Operators ---

void Core::pause(std::string_view aggregate_type, std::string_view type, bool on) {
  const Route* route = listeners_.find(aggregate_type, type);
  if (route == nullptr) {
    throw MisuseError("nobody listens to " + std::string(aggregate_type) + "/" + std::string(type) +
                      ": there is nothing to pause or resume");
  }
  queue_.pause(*breakers_.at(route), on, clock_.steady());
}

Core::Condition Core::condition() const {
  Condition result;
  if (queue_.paused()) result.notes.emplace_back("delivery is paused by an operator");
  if (isolating_) {
    result.notes.emplace_back(
        "events that may have killed the process are delivered by themselves; the others wait");
  }
  for (std::string& refused : completer_.refused()) result.notes.push_back(std::move(refused));
  queue_.inspect(breakers_, [&](const auto& entry) {
    const auto& [route, breaker] = entry;
    if (breaker->held()) {
      result.notes.push_back("the listener of " + route->name + " is paused by an operator");
    } else if (!breaker->well()) {
      result.notes.push_back("the listener of " + route->name + " is unavailable");
    }
  });
  for (const std::string& type : unrouted_.types(clock_.steady())) {
    result.notes.push_back("events wait for a listener of " + type + ", which is not here");
  }
  std::size_t hung = 0;
  for (const auto& worker : workers_) {
    Call call;
    {
      MutexLock lock(worker->mutex);
      call = worker->call;
    }
    if (!call.event || clock_.steady() < call.since + options_.timeouts.hung) continue;
    ++hung;
    result.notes.push_back("the listener of " + name_of(call.route) +
                           " has been working on event " + call.event->id() + " for " +
                           seconds_text(clock_.steady() - call.since));
  }
  result.workers_left = workers_.empty() || hung < workers_.size();
  return result;
}

std::vector<RowRef> Core::close(std::optional<std::chrono::milliseconds> limit) {
  queue_.enable_polling(false);  // first: while closing there is no room for what is read
  if (closing_.exchange(true)) return {};
  const auto drain = bounded(limit.value_or(options_.timeouts.drain));
  const auto deadline = SteadyClock::now() + drain;
  if (!workers_.empty() && !queue_.drain(deadline)) {
    log_({LogLevel::warning,
          "drain_timeout",
          "closing: events were still queued or running after " + std::to_string(drain.count()) +
              " ms; what was not started stays pending",
          {{"drain_ms", drain.count()}}});
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
  stop_calls_.request_stop();
  for (auto& worker : workers_) worker->thread.join();
  completer_.close(SteadyClock::now() + std::max(drain, std::chrono::milliseconds{1'000}));
  try {
    if (!innocent.empty()) instance_->apply(epoch_, innocent);
  } catch (const std::exception& error) {
    log_({LogLevel::warning,
          "crash_count_not_reset",
          std::string("closing: cannot clear the suspicion from ") +
              std::to_string(innocent.size()) + " events: " + error.what(),
          {{"events", innocent.size()}, {"error", error.what()}}});
  }
  return unstarted;
}

}  // namespace outbox::internal
