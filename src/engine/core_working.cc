// What the workers do, and what comes of it.
#include <algorithm>
#include <utility>

#include "base/bounded.h"
#include "base/utf8.h"
#include "engine/core.h"
#include "model/outcome.h"

namespace outbox::internal {
namespace {

// For events whose listener is open: as long as it has been so, so that a long
// outage does not rewrite them again and again.
constexpr std::chrono::milliseconds kFirstPostponement{2'000};
constexpr std::chrono::milliseconds kLongestPostponement{120'000};

// For events that no listener here is for: as long as they have waited, up to
// Unrouted::kLongestWait.
constexpr std::chrono::milliseconds kFirstUnroutable{1'000};

using Kind = Decision::Kind;

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

// Whether all of these are still ours. While the lease may have ended, or has, and
// the keeper has not said so, the worker waits: if it is renewed after all, the events
// must not have been dropped, for the next ones of their lanes would pass them.
bool Core::may_deliver(const std::vector<Job>& jobs) {
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

// --- Delivery ---

void Core::deliver(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = may_deliver(jobs);
  std::vector<Outcome> outcomes;
  if (ours) outcomes = call(worker, jobs);

  std::string away;  // why it paused
  const Breaker* route = jobs.front().route;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Decision decision{.kind = Kind::drop};
    if (ours) decision = decide(jobs[i], outcomes[i]);
    if (decision.update.kind == StatusUpdate::Kind::dead && options_.dead.letter)
      write_dead_letter(jobs[i], decision);
    if (decision.unavailable) away = outcomes[i].error();
    worker.decisions.push_back(std::move(decision));
  }
  {
    // Before the jobs are moved away: whoever watches over this call looks at them.
    MutexLock lock(worker.mutex);
    worker.call.event.reset();
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    worker.finished.push_back(
        {.job = std::move(jobs[i]), .decision = std::move(worker.decisions[i])});
  }
  worker.decisions.clear();
  const bool paused = std::any_of(worker.finished.begin(), worker.finished.end(),
                                  [](const auto& one) { return one.decision.unavailable; });
  WorkQueue::Followers followers = queue_.finish(worker.finished, clock_.steady());
  const bool just_paused = followers.paused;
  const bool closed_again = followers.closed_again;
  settle(worker, std::move(followers));

  if (just_paused) report_paused(route, away);
  if (closed_again) {
    log_({LogLevel::info,
          "listener_available",
          "the listener of " + route->route().name + " is available again",
          {{"listener", route->route().name}}});
  }
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

// Its listener is open or paused, and others need the room; or there is none here.
void Core::postpone(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = may_deliver(jobs);
  const Outcome later = Outcome::retry_after(postponement(jobs.front()));
  for (Job& job : jobs) {
    Decision decision = ours ? decide(job, later) : Decision{.kind = Kind::drop};
    StatusUpdate& update = decision.update;
    update.crashes = job.row.crashes;  // it has not answered
    if (job.route == nullptr) update.error = no_listener(job.row.event) + "; it waits for one";
    worker.finished.push_back({.job = std::move(job), .decision = std::move(decision)});
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
    const auto silent = duration_cast<milliseconds>(queue_.open_for(*job.route, now));
    return std::clamp(silent, kFirstPostponement, kLongestPostponement);
  }
  const Event& event = job.row.event;
  count(Counter::unroutable);
  if (unrouted_.note(event, now)) {
    log_({LogLevel::warning,
          "listener_missing",
          "no listener here for " + event.aggregate_type() + "/" + event.type() +
              ": its events wait for an instance that has one, with the later "
              "ones of their aggregates",
          {{"aggregate_type", event.aggregate_type()}, {"type", event.type()}}});
  }
  const auto age = duration_cast<milliseconds>(clock_.now() - event.occurred_at());
  return std::clamp(age, kFirstUnroutable, Unrouted::kLongestWait);
}

// Submits the updates of what a worker has finished, and of those behind.
void Core::settle(Worker& worker, WorkQueue::Followers followers) {
  std::vector<Completion> updates;
  std::vector<Job> dropped;
  for (Completion& finished : worker.finished) {
    switch (finished.decision.kind) {
      case Kind::done:
      case Kind::wait:
      case Kind::skip:
      case Kind::block:
        updates.push_back(std::move(finished));
        break;
      case Kind::drop:
        dropped.push_back(std::move(finished.job));
        break;
      case Kind::again:  // in the queue again
      case Kind::hold:   // one of the followers
      case Kind::begin:  // these two come from elsewhere
      case Kind::hand_over:
        break;
    }
  }
  if (followers.stale > 0) count(Counter::stale_updates, followers.stale);
  // Before the update of their head can land, after which the lane is read again: whoever is
  // still in flight then is skipped, and never looked for again.
  for (const Job& job : followers.dropped) release(job);
  completer_.submit(std::move(updates));
  for (Job& job : followers.held) hold(std::move(job));
  for (Job& job : followers.park) park(std::move(job));
  give_back(std::move(dropped));
  worker.finished.clear();
}

void Core::report_paused(const Breaker* route, const std::string& why) const {
  log_({LogLevel::warning,
        "listener_unavailable",
        "the listener of " + route->route().name +
            " is unavailable, its events wait: " + cut_error_text(why),
        {{"listener", route->route().name}, {"error", why}}});
}

std::chrono::milliseconds Core::delay_of(const RetryPolicy& policy, int attempts) const {
  try {
    return policy.delay(attempts);
  } catch (...) {
    const std::string error = outcome_of(std::current_exception()).error();
    log_({LogLevel::error,
          "retry_policy_failed",
          "the retry policy failed, the default is used instead: " + error,
          {{"error", error}}});
    return ExponentialBackoff().delay(attempts);
  }
}

// What an outcome means for the event: its update, and what its lane does.
Decision Core::decide(const Job& job, const Outcome& outcome) const {
  const Row& row = job.row;
  Decision result{.update = {.row = row.ref,
                             .event_id = row.event.id(),
                             .lane = job.lane,
                             .attempts = row.attempts,
                             .progress = row.progress}};
  StatusUpdate& update = result.update;
  const auto wait = [&](StatusUpdate::Kind kind, std::chrono::milliseconds delay) {
    update.kind = kind;
    update.delay = bounded(std::max(delay, std::chrono::milliseconds::zero()));
    result.kind = Kind::wait;
  };
  const auto die = [&] {
    update.kind = StatusUpdate::Kind::dead;
    update.error = cut_error_text(outcome.error());
    const bool blocks = options_.dead.then != OnDead::skip && job.lane != kNoLane;
    if (!blocks) update.lane = kNoLane;
    result.kind = blocks ? Kind::block : Kind::skip;
  };

  const ListenerOptions* own = job.route != nullptr ? &job.route->route().options : nullptr;
  switch (outcome.kind()) {
    case Outcome::Kind::done:
      break;
    case Outcome::Kind::unavailable:
      result.unavailable = true;
      if (job.candidate) {
        // It has answered, and killed nobody. Kept in memory it would keep all
        // other listeners waiting for the end of its group.
        wait(StatusUpdate::Kind::defer, options_.breaker.pause);
      } else if (job.unsaved_progress) {
        // Whoever delivers it next is to know which handlers have it; perhaps that is somebody
        // else. It comes back at once, and waits for its listener in memory.
        wait(StatusUpdate::Kind::defer, std::chrono::milliseconds::zero());
      } else {
        result.kind = Kind::again;
      }
      break;
    case Outcome::Kind::retry_after:
      wait(StatusUpdate::Kind::defer, outcome.delay().value_or(std::chrono::milliseconds::zero()));
      break;
    case Outcome::Kind::permanent:
      if (own != nullptr && row.defect.empty()) ++update.attempts;
      die();
      break;
    case Outcome::Kind::failed: {
      ++update.attempts;
      const int max_attempts =
          own != nullptr && own->max_attempts ? *own->max_attempts : options_.retry.max_attempts;
      const RetryPolicy& policy =
          own != nullptr && own->retry ? *own->retry : *options_.retry.policy;
      if (update.attempts >= max_attempts) {
        die();
      } else {
        update.error = cut_error_text(outcome.error());
        wait(StatusUpdate::Kind::retry,
             outcome.delay() ? *outcome.delay() : delay_of(policy, update.attempts));
      }
      break;
    }
  }
  return result;
}

// The dead letter comes first: if nobody takes it, the event is not DEAD yet,
// and its last attempt is repeated.
void Core::write_dead_letter(Job& job, Decision& decision) const {
  try {
    options_.dead.letter(job.row.event, decision.update.error);
  } catch (...) {
    const std::string error = outcome_of(std::current_exception()).error();
    log_({LogLevel::error,
          "dead_letter_failed",
          "no dead letter could be left for event " + job.row.event.id() +
              ", it will be tried again: " + error,
          {{"event", job.row.event.id()}, {"error", error}}});
    const int attempts = std::max(decision.update.attempts, 1);
    decision = decide(job, Outcome::retry_after(delay_of(*options_.retry.policy, attempts)));
    decision.update.crashes = job.row.crashes;  // it has not answered
  }
}

// --- Completion ---

void Core::on_ack(std::span<Completion> completions) {
  // Told first, so that whoever sees the engine idle sees the counts as well.
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
      // Its call is still running, or has returned and marked it by itself.
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
  if (!rows_due.empty() && events_.rows_due) events_.rows_due(rows_due);
  if (waits && events_.timer_changed) events_.timer_changed();
}

// Of a lease that has ended, or not to be delivered any more: they are not marked.
void Core::give_back(std::vector<Job> jobs) {
  for (Job& job : jobs) {
    if (queue_.reclaim(job)) {
      hold(std::move(job));
      continue;
    }
    release(job);
    queue_.let_go(job);
  }
}

void Core::report(const Completion& completion) const {
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

void Core::report_dead(const Completion& completion) const {
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
