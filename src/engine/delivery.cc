#include "engine/delivery.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "model/outcome.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

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

std::string no_listener(const Event& event) {
  return "no listener for aggregate type \"" + event.aggregate_type() + "\", event type \"" +
         event.type() + "\"";
}

Deliverer::Deliverer(std::vector<std::shared_ptr<Interceptor>> interceptors, Logger log)
    : interceptors_(std::move(interceptors)), log_(std::move(log)) {}

std::vector<Outcome> Deliverer::deliver(std::span<Job> jobs, const std::stop_token& stop) const {
  const Breaker* to = jobs.front().route;
  if (to != nullptr && to->route().batch) return deliver_batch(jobs, stop);
  std::vector<Outcome> outcomes;
  outcomes.reserve(jobs.size());
  for (Job& job : jobs) outcomes.push_back(deliver_one(job, stop));
  return outcomes;
}

Outcome Deliverer::deliver_one(Job& job, const std::stop_token& stop) const {
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
      throw MisuseError("the batch listener answered " + std::to_string(answers.size()) +
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

}  // namespace outbox::internal
