// What the workers do, and what comes of it.
#include <algorithm>
#include <utility>

#include "core/bounded.h"
#include "core/utf8.h"
#include "engine/core.h"

namespace outbox::internal {
namespace {

// For events whose listener is unwell: as long as it has been so, so that a long
// outage does not rewrite them again and again.
constexpr std::chrono::milliseconds kFirstPostponement{2'000};
constexpr std::chrono::milliseconds kLongestPostponement{120'000};

// For events that no listener here is for: as long as they have waited, up to
// Unrouted::kLongestWait.
constexpr std::chrono::milliseconds kFirstUnroutable{1'000};

}  // namespace

// --- Workers ---

void Core::work(Worker& worker) {
  WorkQueue::Work work;
  while (queue_.take(work)) {
    if (work.poll) {
      const bool more = events_.read();
      queue_.poll_done(more);
    } else if (work.postpone || waits_for_listener(work.jobs.front())) {
      postpone(worker, work.jobs);
    } else {
      deliver(worker, work.jobs);
    }
  }
}

// Whether all of these are still ours. While the tenure may have ended, or has, and
// the keeper has not said so, the worker waits: if it is renewed after all, the events
// must not have been dropped, for the next ones of their lanes would pass them.
bool Core::may_deliver(const std::vector<Job>& jobs) {
  {
    MutexLock lock(tenure_mutex_);
    const std::int64_t epoch = jobs.front().epoch;
    while (epoch == epoch_ && (clock_.steady() >= deadline_ || fenced_) && !stopping_) {
      tenure_changed_.wait(tenure_mutex_);
    }
    if (jobs.front().epoch != epoch_ || stopping_) return false;
  }
  const Clock::Steady now = clock_.steady();
  return std::all_of(jobs.begin(), jobs.end(), [&](const Job& job) { return now < job.expires; });
}

// --- Delivery ---

void Core::deliver(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = may_deliver(jobs);
  std::vector<Outcome> outcomes;
  if (ours) outcomes = call(worker, jobs);

  std::string away;  // why it paused
  const Breaker* route = jobs.front().route;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Judgement judgement{.after = WorkQueue::After::drop};
    if (ours) judgement = judge(jobs[i], outcomes[i]);
    if (judgement.mark.kind == Mark::Kind::dead && options_.dead_letter) bury(jobs[i], judgement);
    if (judgement.unavailable) away = outcomes[i].error();
    worker.judgements.push_back(std::move(judgement));
  }
  {
    // Before the jobs are moved away: whoever watches over this call looks at them.
    MutexLock lock(worker.mutex);
    worker.call.event.reset();
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    worker.finished.push_back({.job = std::move(jobs[i]),
                               .after = worker.judgements[i].after,
                               .unavailable = worker.judgements[i].unavailable});
  }
  const bool paused = std::any_of(worker.finished.begin(), worker.finished.end(),
                                  [](const auto& one) { return one.was_unavailable(); });
  WorkQueue::Followers followers = queue_.finish(worker.finished, clock_.steady());
  const bool just_paused = followers.paused;
  const bool well_again = followers.well_again;
  settle(worker, std::move(followers));

  if (just_paused) report_paused(route, away);
  if (well_again) log_(LogLevel::info, "the listener of " + route->route().name + " is back");
  if (paused) {
    count(Counter::deferred);
    if (events_.timer_changed) events_.timer_changed();
  }
}

std::vector<Outcome> Core::call(Worker& worker, std::vector<Job>& jobs) {
  const Clock::Steady begin = clock_.steady();
  {
    const Job& first = jobs.front();
    MutexLock lock(worker.mutex);
    worker.call.since = begin;
    worker.call.event = first.row.event;
    worker.call.route = first.route;
    worker.call.reported = false;
    worker.call.jobs = &jobs;
    worker.call.progress.resize(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) worker.call.progress[i] = jobs[i].row.progress;
  }
  std::vector<Outcome> outcomes = deliverer_.deliver(jobs, stop_calls_.get_token());
  if (options_.metrics) options_.metrics->observe(Timing::listener, clock_.steady() - begin);
  return outcomes;
}

// Its listener is unwell or paused, and others need the room; or there is none here.
void Core::postpone(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = may_deliver(jobs);
  const Outcome later = Outcome::retry_after(postponement(jobs.front()));
  for (Job& job : jobs) {
    worker.judgements.push_back(ours ? judge(job, later)
                                     : Judgement{.after = WorkQueue::After::drop});
    Mark& mark = worker.judgements.back().mark;
    mark.crashes = job.row.crashes;  // it has not answered
    if (job.route == nullptr) mark.error = no_listener(job.row.event) + "; it waits for one";
    worker.finished.push_back({.job = std::move(job), .after = worker.judgements.back().after});
  }
  settle(worker, queue_.postponed(worker.finished, clock_.steady()));
}

bool Core::waits_for_listener(const Job& job) const {
  return job.route == nullptr && options_.on_unroutable == OnUnroutable::wait &&
         job.row.defect.empty();
}

std::chrono::milliseconds Core::postponement(const Job& job) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const Clock::Steady now = clock_.steady();
  if (job.route != nullptr) {
    const auto silent = duration_cast<milliseconds>(queue_.silent_for(*job.route, now));
    return std::clamp(silent, kFirstPostponement, kLongestPostponement);
  }
  const Event& event = job.row.event;
  count(Counter::unroutable);
  if (unrouted_.note(event, now)) {
    log_(LogLevel::warning, "no listener here for " + event.aggregate_type() + "/" + event.type() +
                                ": its events wait for an instance that has one, with the later "
                                "ones of their aggregates");
  }
  const auto age = duration_cast<milliseconds>(clock_.now() - event.occurred_at());
  return std::clamp(age, kFirstUnroutable, Unrouted::kLongestWait);
}

// Submits the marks of what a worker has finished, and of those behind.
void Core::settle(Worker& worker, WorkQueue::Followers followers) {
  std::vector<Completion> marks;
  std::vector<Job> dropped;
  for (std::size_t i = 0; i < worker.finished.size(); ++i) {
    WorkQueue::Finished& finished = worker.finished[i];
    switch (finished.after) {
      case WorkQueue::After::next:
      case WorkQueue::After::wait:
      case WorkQueue::After::skip:
      case WorkQueue::After::block:
        marks.push_back({.job = std::move(finished.job),
                         .mark = std::move(worker.judgements[i].mark),
                         .landing = worker.judgements[i].landing});
        break;
      case WorkQueue::After::again:
        break;  // in the queue again
      case WorkQueue::After::drop:
        if (worker.judgements[i].is_marked()) count(Counter::stale_marks);
        dropped.push_back(std::move(finished.job));
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
  if (!dropped.empty()) {
    MutexLock lock(landing_mutex_);
    give_back(std::move(dropped));
  }
  worker.judgements.clear();
  worker.finished.clear();
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
    mark.delay = bounded(std::max(delay, std::chrono::milliseconds::zero()));
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
      result.unavailable = true;
      if (job.suspect) {
        // It has answered, and killed nobody. Kept in memory it would keep all
        // other listeners waiting for the end of its group.
        wait(Mark::Kind::defer, options_.pause);
      } else if (job.unsaved_progress) {
        // Whoever delivers it next is to know which handlers have it; perhaps that is somebody
        // else. It comes back at once, and waits for its listener in memory.
        wait(Mark::Kind::defer, std::chrono::milliseconds::zero());
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

// The dead letter comes first: if nobody takes it, the event is not DEAD yet,
// and its last attempt is repeated.
void Core::bury(Job& job, Judgement& judgement) const {
  try {
    options_.dead_letter(job.row.event, judgement.mark.error);
  } catch (...) {
    const std::string error = outcome_of(std::current_exception()).error();
    log_(LogLevel::error, "no dead letter could be left for event " + job.row.event.id() +
                              ", it will be tried again: " + error);
    const int attempts = std::max(judgement.mark.attempts, 1);
    judgement = judge(job, Outcome::retry_after(delay_of(*options_.retry, attempts)));
    judgement.mark.crashes = job.row.crashes;  // it has not answered
  }
}

// --- Completion ---

void Core::on_landed(std::span<Completion> completions) {
  // Told first, so that whoever sees the engine idle sees the counts as well.
  for (const Completion& completion : completions) report(completion);
  // To hand over what hangs is no progress.
  if (stalls_ > 0 && std::any_of(completions.begin(), completions.end(), [](const Completion& one) {
        return !one.stale && one.landing != Completion::Landing::hand_over;
      })) {
    stalls_ = 0;
  }

  const Clock::Steady now = clock_.steady();
  std::vector<Clock::Steady> rows_due;
  bool waits = false;
  {
    MutexLock lock(landing_mutex_);
    std::vector<Completion> landed;
    std::vector<Job> suspects;
    std::vector<Job> orphans;
    bool left_behind = false;
    landed.reserve(completions.size());
    for (Completion& completion : completions) {
      const bool orphan = completion.job.epoch != epoch_;
      if (completion.landing == Completion::Landing::hand_over) {
        // Its call is still running, or has returned and marked it by itself.
        queue_.handed_over(completion.job, !orphan);
        continue;
      }
      if (orphan && completion.stale) {
        orphans.push_back(std::move(completion.job));
        continue;
      }
      if (completion.mark.kind == Mark::Kind::suspect && !completion.stale) {
        suspects.push_back(std::move(completion.job));
        continue;
      }
      // Before anything else may look for the row again; see Gate.
      release(completion.job);
      if (orphan && events_.left_behind) {
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
          if (alone) rows_due.push_back(completion.due);
          waits = true;
          break;
        case Mark::Kind::dead:
          // An operator may have replayed it already, and a reader passed it while it was in the
          // gate.
          if (alone) rows_due.push_back(now);
          waits = waits || !alone;  // for an operator: see Reader::next_due()
          break;
        case Mark::Kind::done:
        case Mark::Kind::suspect:
        case Mark::Kind::unblock:
          break;
      }
      landed.push_back(std::move(completion));
    }
    queue_.landed(landed, now);
    give_back(std::move(orphans));
    if (left_behind) queue_.request_poll();
    for (Job& job : suspects) begin_suspect(std::move(job));
  }

  publish_gauges();
  tell_if_emptied();
  if (!rows_due.empty() && events_.rows_due) events_.rows_due(rows_due);
  if (waits && events_.timer_changed) events_.timer_changed();
}

// Of a tenure that has ended, or not to be delivered any more: they are not marked.
void Core::give_back(std::vector<Job> jobs) {
  bool left_behind = false;
  for (Job& job : jobs) {
    // Its shard may be ours again, and its lane wait for it: whoever reads that must meet it.
    const bool released = job.epoch == kHandedOver;
    if (released) release(job);
    if (queue_.adopt(job)) {
      set_aside(std::move(job));
      continue;
    }
    if (!released) release(job);
    // The reader may have passed it while it was in the gate. It may wait for a time by now,
    // whatever it did when it was read: it was handed over, or its mark has landed and the answer
    // was lost.
    RowRef row = job.row.ref;
    row.hold = -1;
    if (events_.left_behind) events_.left_behind(row);
    left_behind = true;
  }
  if (left_behind) queue_.request_poll();
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
      if (completion.landing != Completion::Landing::aside) count(Counter::deferred);
      break;
    case Mark::Kind::dead:
      report_dead(completion);
      break;
    case Mark::Kind::aside:
    case Mark::Kind::suspect:
    case Mark::Kind::unblock:
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

}  // namespace outbox::internal
