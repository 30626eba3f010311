#include "engine/worker.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "base/bounded.h"
#include "base/outage.h"
#include "base/own_thread.h"
#include "base/utf8.h"
#include "engine/completer.h"
#include "engine/engine.h"
#include "engine/poller.h"
#include "model/outcome.h"
#include "outbox/error.h"

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

std::string name_of(const Breaker* route) {
  return route != nullptr ? route->route().name : "no event";
}

Delivery delivery_of(const Job& job, const std::stop_token& stop) {
  return {
      .attempt = job.row.attempts + 1, .seq = job.row.ref.seq, .epoch = job.epoch, .stop = stop};
}

// For the interceptors: what a listener returned instead of throwing it.
std::exception_ptr as_exception(const Outcome& outcome) {
  switch (outcome.kind()) {
    case Outcome::Kind::done:
    case Outcome::Kind::retry_after:
      return nullptr;
    case Outcome::Kind::failed:
      return std::make_exception_ptr(RetryableError(outcome.error()));
    case Outcome::Kind::permanent:
      return std::make_exception_ptr(PermanentError(outcome.error()));
    case Outcome::Kind::unavailable:
      return std::make_exception_ptr(UnavailableError(outcome.error()));
  }
  return nullptr;
}

bool has_it(std::string_view progress, std::string_view name) {
  while (!progress.empty()) {
    const std::size_t comma = std::min(progress.find(','), progress.size());
    if (progress.substr(0, comma) == name) return true;
    progress.remove_prefix(std::min(comma + 1, progress.size()));
  }
  return false;
}

// Which of two failures decides what happens to the event: one that is tried
// again goes before one that is not, so that no handler is forgotten.
int weight(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::failed:
      return 4;
    case Outcome::Kind::unavailable:
      return 3;
    case Outcome::Kind::retry_after:
      return 2;
    case Outcome::Kind::permanent:
      return 1;
    case Outcome::Kind::done:
      return 0;
  }
  return 0;
}

Outcome named(const Outcome& outcome, const std::string& name) {
  const std::string error = name + ": " + outcome.error();
  switch (outcome.kind()) {
    case Outcome::Kind::failed:
      return outcome.delay() ? Outcome::failed(error, *outcome.delay()) : Outcome::failed(error);
    case Outcome::Kind::permanent:
      return Outcome::permanent(error);
    case Outcome::Kind::unavailable:
      return Outcome::unavailable(error);
    case Outcome::Kind::done:
    case Outcome::Kind::retry_after:
      break;
  }
  return outcome;
}

Outcome call(Listener& listener, const Event& event, const Delivery& delivery) {
  try {
    return listener.on_event(event, delivery);
  } catch (...) {
    return outcome_of(std::current_exception());
  }
}

Outcome call_all(Job& job, const std::vector<Handler>& handlers, const Delivery& delivery) {
  Outcome result = Outcome::done();
  std::string& progress = job.row.progress;
  for (const Handler& handler : handlers) {
    if (has_it(progress, handler.name)) continue;
    const Outcome outcome = call(*handler.listener, job.row.event, delivery);
    if (outcome.kind() == Outcome::Kind::done) {
      if (!progress.empty()) progress += ',';
      progress += handler.name;
      job.unsaved_progress = true;
    } else if (weight(outcome.kind()) > weight(result.kind())) {
      result = named(outcome, handler.name);
    }
  }
  return result;
}

// Why such an event cannot be delivered.
std::string no_listener(const Event& event) {
  return "no listener for aggregate type \"" + event.aggregate_type() + "\", event type \"" +
         event.type() + "\"";
}

Outcome route(Job& job, const std::stop_token& stop) {
  const Event& event = job.row.event;
  if (job.route == nullptr) {
    return Outcome::permanent(no_listener(event));
  }
  const Delivery delivery = delivery_of(job, stop);
  const Route& to = job.route->route();
  if (to.listener) return call(*to.listener, event, delivery);
  return call_all(job, to.fan_out, delivery);
}

}  // namespace

// --- The steps of a delivery ---

Deliverer::Deliverer(const DispatcherOptions& options)
    : interceptors_(options.interceptors),
      ignores_unroutable_(options.on_unroutable == OnUnroutable::ignore),
      log_(options.log) {}

std::vector<Outcome> Deliverer::deliver(std::span<Job> jobs, const std::stop_token& stop) const {
  const Breaker* to = jobs.front().route;
  if (to != nullptr && to->route().batch) return deliver_batch(jobs, stop);
  std::vector<Outcome> outcomes;
  outcomes.reserve(jobs.size());
  for (Job& job : jobs) outcomes.push_back(deliver_one(job, stop));
  return outcomes;
}

Outcome Deliverer::deliver_one(Job& job, const std::stop_token& stop) const {
  const bool for_others = job.route == nullptr && !job.row.event.type().empty();
  if (for_others && ignores_unroutable_) return Outcome::done();
  if (!job.row.defect.empty()) return Outcome::permanent(job.row.defect);
  const Passage passage = enter(job, stop);
  Outcome outcome = passage.error ? outcome_of(passage.error) : route(job, stop);
  leave(job.row.event, passage, outcome);
  return outcome;
}

std::vector<Outcome> Deliverer::deliver_batch(std::span<Job> jobs,
                                              const std::stop_token& stop) const {
  std::vector<Outcome> outcomes(jobs.size(), Outcome::done());
  std::vector<Passage> passages(jobs.size());
  std::vector<BatchListener::Item> items;
  std::vector<std::size_t> called;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!jobs[i].row.defect.empty()) {
      outcomes[i] = Outcome::permanent(jobs[i].row.defect);
      continue;
    }
    passages[i] = enter(jobs[i], stop);
    if (passages[i].error) {
      outcomes[i] = outcome_of(passages[i].error);
      leave(jobs[i].row.event, passages[i], outcomes[i]);
      continue;
    }
    items.push_back({jobs[i].row.event, delivery_of(jobs[i], stop)});
    called.push_back(i);
  }
  if (items.empty()) return outcomes;

  std::vector<Outcome> answers;
  try {
    answers = jobs.front().route->route().batch->on_events(items);
    if (answers.size() != items.size()) {
      throw MisuseError("the batch listener returned " + std::to_string(answers.size()) +
                        " outcomes for " + std::to_string(items.size()) + " events");
    }
  } catch (...) {
    answers.assign(items.size(), outcome_of(std::current_exception()));
  }
  for (std::size_t n = 0; n < called.size(); ++n) {
    outcomes[called[n]] = answers[n];
    leave(jobs[called[n]].row.event, passages[called[n]], answers[n]);
  }
  return outcomes;
}

Deliverer::Passage Deliverer::enter(const Job& job, const std::stop_token& stop) const {
  Passage passage;
  if (interceptors_.empty()) return passage;
  const Delivery delivery = delivery_of(job, stop);
  try {
    for (const auto& interceptor : interceptors_) {
      interceptor->before_delivery(job.row.event, delivery);
      ++passage.entered;
    }
  } catch (...) {
    passage.error = std::current_exception();
  }
  return passage;
}

void Deliverer::leave(const Event& event, const Passage& passage, const Outcome& outcome) const {
  if (passage.entered == 0) return;
  const std::exception_ptr error = passage.error ? passage.error : as_exception(outcome);
  for (std::size_t i = passage.entered; i > 0; --i) {
    try {
      interceptors_[i - 1]->after(event, error);
    } catch (...) {
      const std::string problem = outcome_of(std::current_exception()).error();
      log_({LogLevel::error,
            "interceptor_failed",
            "an interceptor failed after the delivery of event " + event.id() + ": " + problem,
            {{"event", event.id()}, {"error", problem}}});
    }
  }
}

// --- Workers ---

Workers::Workers(Engine& engine, WorkQueue& queue, Completer& completer,
                 const DispatcherOptions& options)
    : engine_(engine),
      queue_(queue),
      completer_(completer),
      options_(options),
      log_(options.log),
      clock_(*options.clock),
      deliverer_(options) {}

void Workers::start() {
  for (int n = 0; n < options_.workers; ++n) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.thread = Thread([this, &worker, n] {
      const OwnThread own(&engine_);
      name_this_thread("outbox-work-" + std::to_string(n));
      work(worker);
    });
  }
}

void Workers::stop() {
  stop_calls_.request_stop();
  for (auto& worker : workers_) worker->thread.join();
}

void Workers::work(Worker& worker) {
  WorkQueue::Work work;
  while (queue_.take(work)) {
    if (work.poll) {
      const bool more = engine_.poller()->read();
      queue_.poll_done(more);
    } else if (work.postpone || waits_for_listener(work.jobs.front())) {
      postpone(worker, work.jobs);
    } else {
      deliver(worker, work.jobs);
    }
  }
}

// --- Delivery ---

void Workers::deliver(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = engine_.may_deliver(jobs);
  std::vector<Outcome> outcomes;
  if (ours) outcomes = call(worker, jobs);

  std::string why;  // its listener is unavailable
  const Breaker* route = jobs.front().route;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Decision decision{.kind = Kind::drop};
    if (ours) decision = decide(jobs[i], outcomes[i]);
    if (decision.update.kind == StatusUpdate::Kind::dead && options_.dead.letter)
      write_dead_letter(jobs[i], decision);
    if (decision.unavailable) why = outcomes[i].error();
    worker.decisions.push_back(std::move(decision));
  }
  {
    // Before the jobs are moved away: the thread that watches this call looks at them.
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

  if (just_paused) report_unavailable(route, why);
  if (closed_again) {
    log_({LogLevel::info,
          "listener_available",
          "the listener of " + route->route().name + " is available again",
          {{"listener", route->route().name}}});
  }
  if (paused) {
    engine_.count(Counter::deferred);
    engine_.timer_changed();
  }
}

std::vector<Outcome> Workers::call(Worker& worker, std::vector<Job>& jobs) {
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
void Workers::postpone(Worker& worker, std::vector<Job>& jobs) {
  const bool ours = engine_.may_deliver(jobs);
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

bool Workers::waits_for_listener(const Job& job) const {
  return job.route == nullptr && options_.on_unroutable == OnUnroutable::wait &&
         job.row.defect.empty();
}

std::chrono::milliseconds Workers::postponement(const Job& job) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const Clock::Steady now = clock_.steady();
  if (job.route != nullptr) {
    const auto silent = duration_cast<milliseconds>(queue_.open_for(*job.route, now));
    return std::clamp(silent, kFirstPostponement, kLongestPostponement);
  }
  const Event& event = job.row.event;
  engine_.count(Counter::unroutable);
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
void Workers::settle(Worker& worker, WorkQueue::Followers followers) {
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
  if (followers.stale > 0) engine_.count(Counter::stale_updates, followers.stale);
  // Before the update of their head can be acknowledged, after which the lane is read again: an
  // event still in flight then is skipped, and never looked for again.
  for (const Job& job : followers.dropped) engine_.release(job);
  completer_.submit(std::move(updates));
  for (Job& job : followers.held) engine_.hold(std::move(job));
  for (Job& job : followers.park) engine_.park(std::move(job));
  engine_.give_back(std::move(dropped));
  worker.finished.clear();
}

void Workers::report_unavailable(const Breaker* route, const std::string& why) const {
  log_({LogLevel::warning,
        "listener_unavailable",
        "the listener of " + route->route().name +
            " is unavailable, its events wait: " + cut_error_text(why),
        {{"listener", route->route().name}, {"error", why}}});
}

std::chrono::milliseconds Workers::delay_of(const RetryPolicy& policy, int attempts) const {
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
Decision Workers::decide(const Job& job, const Outcome& outcome) const {
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
        // The next delivery, perhaps by another instance, is to know which handlers have it. It
        // comes back at once, and waits for its listener in memory.
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
void Workers::write_dead_letter(Job& job, Decision& decision) const {
  try {
    options_.dead.letter(job.row.event, decision.update.error);
  } catch (...) {
    const std::string error = outcome_of(std::current_exception()).error();
    log_({LogLevel::error,
          "dead_letter_failed",
          "the dead letter failed for event " + job.row.event.id() +
              ", its last attempt will be repeated: " + error,
          {{"event", job.row.event.id()}, {"error", error}}});
    const int attempts = std::max(decision.update.attempts, 1);
    decision = decide(job, Outcome::retry_after(delay_of(*options_.retry.policy, attempts)));
    decision.update.crashes = job.row.crashes;  // it has not answered
  }
}

// --- Calls that hang ---

bool Workers::report_hung(std::optional<Clock::Steady>& next) {
  const Clock::Steady now = clock_.steady();
  bool any = false;
  for (const auto& worker : workers_) any = report_hung(*worker, now, next) || any;
  return any;
}

// True if this call has just passed the limit; else when it will.
bool Workers::report_hung(Worker& worker, Clock::Steady now, std::optional<Clock::Steady>& next) {
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
  engine_.count(Counter::hung_calls);
  log_({LogLevel::error,
        "listener_hung",
        "the listener of " + name_of(hung.route) + " has been working on event " +
            hung.event->id() + " for more than " + std::to_string(options_.timeouts.hung.count()) +
            " ms and has not returned; its worker is blocked until it does",
        {{"listener", name_of(hung.route)},
         {"event", hung.event->id()},
         {"limit_ms", options_.timeouts.hung.count()}}});
  return true;
}

void Workers::hand_over_hung(std::optional<int> shard, std::int64_t epoch) {
  std::vector<Completion> updates;
  const Clock::Steady now = clock_.steady();
  for (const auto& worker : workers_) {
    MutexLock lock(worker->mutex);
    if (!worker->call.event || !worker->call.reported) continue;
    const auto taken =
        std::chrono::duration_cast<std::chrono::microseconds>(now - worker->call.since);
    for (std::size_t i = 0; i < worker->call.jobs->size(); ++i) {
      const Job& job = (*worker->call.jobs)[i];
      if ((shard && job.row.ref.shard != *shard) || !queue_.begin_hand_over(job)) continue;
      // In the present epoch: it may be a reclaimed one whose shard is ours again. (The job's
      // progress, which the call changes, is not to be touched here.)
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

bool Workers::all_hang(std::chrono::milliseconds longer) const {
  if (workers_.empty()) return false;
  const Clock::Steady now = clock_.steady();
  return std::all_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
    MutexLock lock(worker->mutex);
    return worker->call.event && now >= worker->call.since + options_.timeouts.hung + longer;
  });
}

std::vector<std::string> Workers::hung_calls() const {
  std::vector<std::string> result;
  for (const auto& worker : workers_) {
    Call call;
    {
      MutexLock lock(worker->mutex);
      call = worker->call;
    }
    const Clock::Steady now = clock_.steady();
    if (!call.event || now < call.since + options_.timeouts.hung) continue;
    result.push_back("the listener of " + name_of(call.route) + " has been working on event " +
                     call.event->id() + " for " + seconds_text(now - call.since));
  }
  return result;
}

std::vector<std::string> Workers::unrouted() const {
  std::vector<std::string> result;
  for (const std::string& type : unrouted_.types(clock_.steady())) {
    result.push_back("events wait for a listener of " + type + ", which is not here");
  }
  return result;
}

}  // namespace outbox::internal
