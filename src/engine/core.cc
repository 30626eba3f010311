#include "engine/core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/lane_key.h"
#include "core/thread_name.h"
#include "core/utf8.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using std::chrono::steady_clock;

DispatcherOptions checked(DispatcherOptions options) {
  const auto refuse = [](const std::string& what) { throw MisuseError("dispatcher: " + what); };
  if (options.workers < 1)
    refuse("workers must be at least 1, got " + std::to_string(options.workers));
  if (options.hot_capacity == 0) refuse("hot_capacity must be at least 1");
  if (options.cold_capacity == 0) refuse("cold_capacity must be at least 1");
  if (options.capacity_bytes == 0) refuse("capacity_bytes must be at least 1");
  if (options.max_attempts < 1) {
    refuse("max_attempts must be at least 1, got " + std::to_string(options.max_attempts));
  }
  if (options.drain_timeout.count() < 0) refuse("drain_timeout must not be negative");
  if (options.hung_after.count() <= 0) refuse("hung_after must be positive");
  if (options.pause.count() <= 0 || options.pause > options.max_pause) {
    refuse(
        "pauses need 0 < pause <= max_pause, got pause = " + std::to_string(options.pause.count()) +
        " ms, max_pause = " + std::to_string(options.max_pause.count()) + " ms");
  }
  if (!options.retry) options.retry = std::make_shared<ExponentialBackoff>();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

WorkQueueOptions queue_options(const DispatcherOptions& options, std::size_t batch) {
  return {.workers = options.workers,
          .hot_capacity = options.hot_capacity,
          .cold_capacity = options.cold_capacity,
          .capacity_bytes = options.capacity_bytes,
          .batch = std::min(batch, options.cold_capacity),
          .park = options.on_dead == OnDead::park};
}

// Written by plain SQL, without a word to the engine that it is to wait. An
// event that was available when it occurred never waits, whatever another clock
// says by now (one that was set back, or that of another host): later events of
// its aggregate would overtake it.
bool is_to_wait(const Row& row) {
  return row.ref.hold == 0 && row.available_in > std::chrono::microseconds::zero() &&
         row.event.available_at() > row.event.occurred_at();
}

}  // namespace

Core::Core(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options,
           std::size_t batch)
    : instance_(std::move(instance)),
      listeners_(std::move(listeners)),
      options_(checked(std::move(options))),
      log_(options_.log),
      clock_(*options_.clock),
      gate_(options_.tracker ? nullptr : std::make_shared<Gate>()),
      tracker_(options_.tracker ? options_.tracker : gate_),
      queue_(queue_options(options_, batch)),
      deliverer_(options_.interceptors, log_),
      completer_(instance_,
                 {.landed = [this](std::span<Completion> done) { on_landed(done); },
                  .fenced =
                      [this] {
                        if (events_.fenced) events_.fenced();
                      }},
                 log_),
      drop_warnings_(std::chrono::seconds{10}) {
  const BreakerOptions pauses{.pause = options_.pause, .max_pause = options_.max_pause};
  for (const Route* route : listeners_.routes()) {
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
    worker.thread = std::jthread([this, &worker, n] {
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
  // Less a tenth, for a clock of the database that runs ahead of ours.
  if (options_.lock_timeout) job.expires = clock_.steady() + *options_.lock_timeout * 9 / 10;
  return job;
}

bool Core::reserve(const Event& event) { return tracker_->try_acquire(event.id()); }

bool Core::enqueue_reserved(Row row) {
  if (closing_ || !direct(row.ref.shard)) return false;
  Job job = job_of(std::move(row), true, epoch_);
  return admitted(job, queue_.admit_direct(job));
}

void Core::give_up(const Event& event) { tracker_->release(event.id()); }

void Core::leave_to_reader(const Event& event, const RowRef& row) {
  tracker_->release(event.id());
  if (events_.left_behind) events_.left_behind(row);
  queue_.request_poll();
}

bool Core::enqueue(Row row, bool hot) {
  if (closing_) return false;
  if (!tracker_->try_acquire(row.event.id())) return true;
  Job job = job_of(std::move(row), hot, epoch_);
  if (admit(job)) return true;
  release(job);
  return false;
}

bool Core::admit(Job& job) { return admitted(job, queue_.admit(job)); }

bool Core::admitted(Job& job, WorkQueue::Admission admission) {
  const bool hot = job.hot;
  switch (admission) {
    case WorkQueue::Admission::full:
      return false;
    case WorkQueue::Admission::aside:
      set_aside(std::move(job));
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

void Core::set_aside(Job job) {
  Completion completion{.job = std::move(job), .landing = Completion::Landing::aside};
  completion.mark = {.row = completion.job.row.ref,
                     .event_id = completion.job.row.event.id(),
                     .kind = Mark::Kind::aside,
                     .lane = completion.job.lane};
  completer_.submit(std::move(completion));
}

void Core::park(Job job) {
  Completion completion{.job = std::move(job), .landing = Completion::Landing::aside};
  completion.mark = {.row = completion.job.row.ref,
                     .event_id = completion.job.row.event.id(),
                     .kind = Mark::Kind::dead,
                     .lane = completion.job.lane,
                     .attempts = completion.job.row.attempts,
                     .error = "parked: an earlier event of its aggregate is dead",
                     .progress = completion.job.row.progress};
  completer_.submit(std::move(completion));
}

void Core::release(const Job& job) { tracker_->release(job.row.event.id()); }

// --- PollHandler ---

std::size_t Core::room() { return cold_room(); }

std::size_t Core::in_flight() { return queue_.in_flight(); }

void Core::read_begins(std::int64_t epoch) {
  reading_epoch_ = epoch;
  reading_ = true;
  if (gate_) gate_->read_begins();
}

void Core::read_ends() {
  reading_ = false;
  if (gate_) gate_->read_ends();
  queue_.read_ends();
}

bool Core::handle(Row row) {
  if (closing_) return false;
  const bool wait = is_to_wait(row);
  if (!tracker_->try_acquire(row.event.id())) return true;
  Job job = job_of(std::move(row), false, reading_epoch_);
  if (!wait) {
    if (admitted(job, reading_ ? queue_.admit_quietly(job) : queue_.admit(job))) return true;
    release(job);
    return false;
  }
  job.lane = kNoLane;
  if (!queue_.reserve(job)) {
    release(job);
    return false;
  }
  set_aside(std::move(job));
  return true;
}

void Core::handle_suspects(std::vector<Row> rows) {
  std::vector<Completion> completions;
  for (Row& row : rows) {
    if (is_to_wait(row)) {
      handle(std::move(row));  // it cannot have been under way
      continue;
    }
    if (!tracker_->try_acquire(row.event.id())) continue;
    Job job = job_of(std::move(row), false, reading_epoch_);
    // Rows set aside stay in the lane that they wait in.
    if (job.row.ref.hold > 0) job.lane = job.row.ref.hold;
    if (!queue_.reserve(job)) {
      release(job);
      if (events_.left_behind) events_.left_behind(job.row.ref);
      break;
    }
    if (job.row.ref.hold > 0) queue_.expect(job.lane);
    job.suspect = true;
    Mark mark{.row = job.row.ref,
              .event_id = job.row.event.id(),
              .kind = Mark::Kind::suspect,
              .crashes = job.row.crashes + 1};
    completions.push_back(
        {.job = std::move(job), .mark = std::move(mark), .landing = Completion::Landing::suspect});
  }
  completer_.submit(std::move(completions));
}

// Its crashes have been raised: now it may be delivered.
void Core::begin_suspect(Job job) {
  switch (queue_.begin(job)) {
    case WorkQueue::Admission::queued:
      break;
    case WorkQueue::Admission::aside:
      set_aside(std::move(job));
      break;
    case WorkQueue::Admission::park:
      park(std::move(job));
      break;
    case WorkQueue::Admission::full:
      release(job);
      break;
  }
}

void Core::restore(const HeldLane& lane) { queue_.restore(lane, clock_.steady()); }

PollHandler::Wanted Core::next_lane(std::span<const Seq> read_through) {
  if (closing_) return {};
  return queue_.next_lane(read_through, clock_.steady());
}

void Core::fill(const Wanted& lane, Rows rows, bool suspect) {
  WorkQueue::Filling filling{.more = rows.more};
  std::vector<Row> suspects;
  std::size_t dead = 0;
  auto row = rows.rows.begin();
  for (; row != rows.rows.end(); ++row) {
    if (row->status == Status::dead) {
      // After a change from `block` or `park` to `skip` a lane may begin with
      // DEAD events that nobody waits for.
      ++dead;
      if (options_.on_dead == OnDead::skip) continue;
      filling.blocked = true;
      break;
    }
    if (row->available_in > std::chrono::microseconds::zero()) {
      filling.due = clock_.steady() + row->available_in;
      break;
    }
    if (suspect) {
      suspects.push_back(std::move(*row));
      continue;
    }
    if (!tracker_->try_acquire(row->event.id())) continue;
    Job job = job_of(std::move(*row), false, reading_epoch_);
    job.lane = lane.key;
    filling.jobs.push_back(std::move(job));
  }
  if (filling.more && dead > 0 && dead == rows.rows.size()) filling.blocked = true;
  const bool blocked = filling.blocked;
  // Suspects are still to come: the lane is to be read again after them.
  if (!suspects.empty()) filling.more = true;
  if (!suspects.empty()) handle_suspects(std::move(suspects));
  for (const Job& job : queue_.fill(lane.key, std::move(filling))) release(job);
  if (!blocked || options_.on_dead != OnDead::park) return;
  for (; row != rows.rows.end(); ++row) {
    if (row->status != Status::dead && !handle(std::move(*row))) return;
  }
}

// --- Workers ---

void Core::work(Worker& worker) {
  WorkQueue::Work work;
  while (queue_.take(work)) {
    if (work.poll) {
      const bool more = events_.read();
      queue_.poll_done(more);
    } else {
      deliver(worker, work.jobs);
    }
  }
}

// Whether all of these are still ours. While the tenure may have ended but was
// not lost for certain, the worker waits: if it is renewed after all, the events
// must not have been dropped, for the next ones of their lanes would pass them.
bool Core::may_deliver(const std::vector<Job>& jobs) {
  {
    MutexLock lock(tenure_mutex_);
    while (jobs.front().epoch == epoch_ && clock_.steady() >= deadline_ && !stopping_) {
      tenure_changed_.wait(tenure_mutex_);
    }
    if (jobs.front().epoch != epoch_ || stopping_) return false;
  }
  const Clock::Steady now = clock_.steady();
  return std::all_of(jobs.begin(), jobs.end(), [&](const Job& job) { return now < job.expires; });
}

void Core::deliver(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = may_deliver(jobs);
  const Clock::Steady begin = clock_.steady();
  std::vector<Outcome> outcomes;
  if (ours) {
    const Job& first = jobs.front();
    {
      MutexLock lock(worker.mutex);
      worker.call = {.since = begin, .event = first.row.event, .route = first.route};
    }
    outcomes = deliverer_.deliver(jobs, stop_calls_.get_token());
    MutexLock lock(worker.mutex);
    worker.call.event.reset();
  }
  const Clock::Steady end = clock_.steady();
  if (ours && options_.metrics) options_.metrics->observe(Timing::listener, end - begin);

  bool paused = false;
  std::string away;  // why it paused
  const Breaker* route = jobs.front().route;
  std::vector<Judgement>& judgements = worker.judgements;
  std::vector<WorkQueue::Finished>& finished = worker.finished;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (ours) judgements.push_back(judge(jobs[i], outcomes[i]));
    if (ours && judgements.back().after == WorkQueue::After::again) {
      paused = true;
      away = outcomes[i].error();
    }
    finished.push_back({.job = std::move(jobs[i]),
                        .after = ours ? judgements.back().after : WorkQueue::After::drop});
  }
  WorkQueue::Followers followers = queue_.finish(finished, end);

  std::vector<Completion> marks;
  for (std::size_t i = 0; i < finished.size(); ++i) {
    switch (finished[i].after) {
      case WorkQueue::After::next:
      case WorkQueue::After::wait:
      case WorkQueue::After::skip:
      case WorkQueue::After::block:
        marks.push_back({.job = std::move(finished[i].job),
                         .mark = std::move(judgements[i].mark),
                         .landing = judgements[i].landing});
        break;
      case WorkQueue::After::again:
        break;  // in the queue again
      case WorkQueue::After::drop:
        // The reader may have passed it while it was in the gate.
        release(finished[i].job);
        if (events_.left_behind) events_.left_behind(finished[i].job.row.ref);
        queue_.request_poll();
        break;
      case WorkQueue::After::aside:
        break;  // one of the followers
    }
  }
  // Before the mark of their head can land, after which the lane is read again:
  // whoever is still in the gate then is skipped, and never looked for again.
  for (const Job& job : followers.dropped) release(job);
  completer_.submit(std::move(marks));
  for (Job& job : followers.aside) set_aside(std::move(job));
  for (Job& job : followers.park) park(std::move(job));
  judgements.clear();
  finished.clear();
  if (followers.paused) report_paused(route, away);
  if (followers.well_again) {
    log_(LogLevel::info, "the listener of " + route->route().name + " is back");
  }
  if (paused) {
    count(Counter::deferred);
    if (events_.timer_changed) events_.timer_changed();
  }
}

void Core::report_paused(const Breaker* route, const std::string& why) const {
  log_(LogLevel::warning, "the listener of " + route->route().name +
                              " is unavailable, its events wait: " + cut_error_text(why));
}

std::chrono::milliseconds Core::delay_of(const RetryPolicy& policy, int attempts) const {
  try {
    return policy.delay(attempts);
  } catch (...) {
    log_(LogLevel::error, "the retry policy failed, the default is used instead: " +
                              outcome_of(std::current_exception()).error());
    return ExponentialBackoff().delay(attempts);
  }
}

// What an outcome means for the event: its mark, and what its lane does.
Core::Judgement Core::judge(const Job& job, const Outcome& outcome) const {
  const Row& row = job.row;
  Judgement result{.mark = {.row = row.ref,
                            .event_id = row.event.id(),
                            .lane = job.lane,
                            .attempts = row.attempts,
                            .progress = row.progress}};
  Mark& mark = result.mark;
  const auto wait = [&](Mark::Kind kind, std::chrono::milliseconds delay) {
    mark.kind = kind;
    mark.delay = std::max(delay, std::chrono::milliseconds::zero());
    result.landing = Completion::Landing::head;
    result.after = WorkQueue::After::wait;
  };
  const auto die = [&] {
    mark.kind = Mark::Kind::dead;
    mark.error = cut_error_text(outcome.error());
    result.landing = Completion::Landing::head;
    const bool blocks = options_.on_dead != OnDead::skip && job.lane != kNoLane;
    if (!blocks) mark.lane = kNoLane;
    result.after = blocks ? WorkQueue::After::block : WorkQueue::After::skip;
  };

  const ListenerOptions* own = job.route != nullptr ? &job.route->route().options : nullptr;
  switch (outcome.kind()) {
    case Outcome::Kind::done:
      break;
    case Outcome::Kind::unavailable:
      if (job.suspect) {
        // It has answered, and killed nobody. Kept in memory it would keep all
        // other listeners waiting for the end of its group.
        wait(Mark::Kind::defer, options_.pause);
      } else {
        result.after = WorkQueue::After::again;
      }
      break;
    case Outcome::Kind::retry_after:
      wait(Mark::Kind::defer, outcome.delay().value_or(std::chrono::milliseconds::zero()));
      break;
    case Outcome::Kind::permanent:
      if (own != nullptr && row.defect.empty()) ++mark.attempts;
      die();
      break;
    case Outcome::Kind::failed: {
      ++mark.attempts;
      const int max_attempts =
          own != nullptr && own->max_attempts ? *own->max_attempts : options_.max_attempts;
      const RetryPolicy& policy = own != nullptr && own->retry ? *own->retry : *options_.retry;
      if (mark.attempts >= max_attempts) {
        die();
      } else {
        mark.error = cut_error_text(outcome.error());
        wait(Mark::Kind::retry,
             outcome.delay() ? *outcome.delay() : delay_of(policy, mark.attempts));
      }
      break;
    }
  }
  return result;
}

// --- Completion ---

void Core::on_landed(std::span<Completion> completions) {
  // Told first, so that whoever sees the engine idle sees the counts as well.
  for (const Completion& completion : completions) report(completion);

  const Clock::Steady now = clock_.steady();
  std::vector<Completion> landed;
  std::vector<Job> suspects;
  std::optional<Clock::Steady> row_due;
  bool waits = false;
  bool left_behind = false;
  landed.reserve(completions.size());
  for (Completion& completion : completions) {
    if (completion.landing == Completion::Landing::suspect && !completion.stale) {
      suspects.push_back(std::move(completion.job));
      continue;
    }
    // Before anything else may look for the row again; see Gate.
    release(completion.job);
    if (completion.job.epoch != epoch_ && events_.left_behind) {
      // A reader in the new tenure may have passed it while it was in the gate.
      events_.left_behind(completion.job.row.ref);
      left_behind = true;
    }
    completion.due = now + completion.mark.delay;
    const bool alone = completion.mark.lane == kNoLane;
    switch (completion.mark.kind) {
      case Mark::Kind::aside:
        if (alone) completion.due = now + completion.job.row.available_in;
        [[fallthrough]];
      case Mark::Kind::retry:
      case Mark::Kind::defer:
        if (alone) row_due = std::min(row_due.value_or(completion.due), completion.due);
        waits = true;
        break;
      case Mark::Kind::done:
      case Mark::Kind::dead:
      case Mark::Kind::suspect:
        break;
    }
    landed.push_back(std::move(completion));
  }
  queue_.landed(landed, now);
  if (left_behind) queue_.request_poll();
  for (Job& job : suspects) begin_suspect(std::move(job));

  publish_gauges();
  if (events_.emptied && queue_.in_flight() == 0) events_.emptied();
  if (row_due && events_.row_due) events_.row_due(*row_due);
  if (waits && events_.timer_changed) events_.timer_changed();
}

void Core::report(const Completion& completion) const {
  if (completion.stale) {
    count(Counter::stale_marks);
    return;
  }
  switch (completion.mark.kind) {
    case Mark::Kind::done:
      count(Counter::success);
      if (options_.metrics) {
        options_.metrics->observe(Timing::commit_to_done,
                                  clock_.now() - completion.job.row.event.occurred_at());
      }
      break;
    case Mark::Kind::retry:
      count(Counter::failure);
      break;
    case Mark::Kind::defer:
      count(Counter::deferred);
      break;
    case Mark::Kind::dead:
      report_dead(completion);
      break;
    case Mark::Kind::aside:
    case Mark::Kind::suspect:
      break;
  }
}

void Core::report_dead(const Completion& completion) const {
  count(Counter::dead);
  const Event& event = completion.job.row.event;
  log_(LogLevel::error, "event " + event.id() + " (" + event.aggregate_type() + "/" + event.type() +
                            ") is dead after " + std::to_string(completion.mark.attempts) +
                            " attempts: " + completion.mark.error);
  if (!options_.on_dead_event) return;
  try {
    options_.on_dead_event(event, completion.mark.error);
  } catch (...) {
    log_(LogLevel::error, "the on-dead callback failed for event " + event.id() + ": " +
                              outcome_of(std::current_exception()).error());
  }
}

void Core::count(Counter counter, std::uint64_t n) const {
  if (options_.metrics) options_.metrics->add(counter, n);
}

void Core::publish_gauges() const {
  if (!options_.metrics) return;
  options_.metrics->set(Gauge::hot_depth, static_cast<double>(queue_.depth(true)));
  options_.metrics->set(Gauge::cold_depth, static_cast<double>(queue_.depth(false)));
  options_.metrics->set(Gauge::in_flight, static_cast<double>(queue_.in_flight()));
}

// --- Ownership and time ---

void Core::tenure(const Tenure& tenure, Clock::Steady valid_until) {
  // The completer first: it must know the epoch before anything is read in it.
  const bool changed = tenure.epoch != epoch_;
  if (changed) completer_.set_epoch(tenure.epoch);
  {
    MutexLock lock(tenure_mutex_);
    deadline_ = valid_until;
    epoch_ = tenure.epoch;
    tenure_changed_.notify_all();
  }
  // Before a shard that is being given up is looked at; see drained().
  queue_.own(options_.lock_timeout ? std::nullopt : std::optional(tenure.shards));
  if (!changed) return;
  for (const Job& job : queue_.enter(tenure.epoch)) release(job);
}

bool Core::drained(int shard) {
  if (!queue_.shard_idle(shard)) return false;
  queue_.forget_shard(shard);
  return true;
}

std::optional<Clock::Steady> Core::tick() {
  const Clock::Steady now = clock_.steady();
  std::optional<Clock::Steady> next = queue_.tick(now);
  for (const auto& worker : workers_) {
    Call hung;
    {
      MutexLock lock(worker->mutex);
      Call& call = worker->call;
      if (!call.event || call.reported) continue;
      const Clock::Steady limit = call.since + options_.hung_after;
      if (now < limit) {
        next = std::min(next.value_or(limit), limit);
        continue;
      }
      call.reported = true;
      hung = call;
    }
    count(Counter::hung_calls);
    const std::string route = hung.route != nullptr ? hung.route->route().name : "no listener";
    log_(LogLevel::error, "the listener of " + route + " has been working on event " +
                              hung.event->id() + " for more than " +
                              std::to_string(options_.hung_after.count()) +
                              " ms and is still at it; its worker is lost until it returns");
  }
  return next;
}

std::vector<RowRef> Core::close() {
  if (closing_.exchange(true)) return {};
  queue_.enable_polling(false);
  const auto deadline = steady_clock::now() + options_.drain_timeout;
  if (!workers_.empty() && !queue_.drain(deadline)) {
    log_(LogLevel::warning, "closing: events were still queued or running after " +
                                std::to_string(options_.drain_timeout.count()) +
                                " ms; what was not started stays pending");
  }
  std::vector<RowRef> unstarted;
  std::vector<Mark> innocent;
  for (const Job& job : queue_.drop_all()) {
    unstarted.push_back(job.row.ref);
    if (!job.suspect) continue;
    innocent.push_back({.row = job.row.ref,
                        .event_id = job.row.event.id(),
                        .kind = Mark::Kind::suspect,
                        .crashes = job.row.crashes});
  }
  queue_.stop();
  {
    MutexLock lock(tenure_mutex_);
    stopping_ = true;
    tenure_changed_.notify_all();
  }
  stop_calls_.request_stop();
  for (auto& worker : workers_) worker->thread.join();
  completer_.close(steady_clock::now() +
                   std::max(options_.drain_timeout, std::chrono::milliseconds{1'000}));
  try {
    if (!innocent.empty()) instance_->mark(epoch_, innocent);
  } catch (const std::exception& error) {
    log_(LogLevel::warning, std::string("closing: cannot clear the suspicion from ") +
                                std::to_string(innocent.size()) + " events: " + error.what());
  }
  return unstarted;
}

}  // namespace outbox::internal
