#include "outbox/typed/publisher.h"

#include <exception>
#include <utility>

#include "base/quote.h"
#include "outbox/error.h"
#include "outbox/typed/recording_publisher.h"

namespace outbox {
namespace {

class TransactionalPublisher final : public DomainEventPublisher {
 public:
  explicit TransactionalPublisher(Writer& writer) : writer_(writer) {}

 private:
  std::vector<std::string> send(Transaction* tx, std::vector<Draft> drafts) override {
    return tx != nullptr ? tx->write_all(std::move(drafts)) : writer_.write_all(std::move(drafts));
  }

  Writer& writer_;
};

// What the outbox would act on, for a caller who has to.
void throw_unless_done(const Outcome& outcome) {
  switch (outcome.kind()) {
    case Outcome::Kind::done:
      return;
    case Outcome::Kind::retry_after:
      throw RetryAfterError("the listener asked for a retry, and there is no outbox",
                            outcome.delay().value_or(std::chrono::milliseconds{0}));
    case Outcome::Kind::failed:
      if (outcome.delay()) throw RetryAfterError(outcome.error(), *outcome.delay());
      throw RetryableError(outcome.error());
    case Outcome::Kind::permanent:
      throw PermanentError(outcome.error());
    case Outcome::Kind::unavailable:
      throw UnavailableError(outcome.error());
  }
}

class InMemoryPublisher final : public DomainEventPublisher {
 public:
  explicit InMemoryPublisher(Listeners listeners) : listeners_(std::move(listeners)) {}

 private:
  std::vector<std::string> send(Transaction* /*tx*/, std::vector<Draft> drafts) override {
    std::vector<Event> events;
    events.reserve(drafts.size());
    for (Draft& draft : drafts) events.push_back(make_event(std::move(draft)));
    std::vector<std::string> ids;
    ids.reserve(events.size());
    for (const Event& event : events) {
      deliver(event);
      ids.push_back(event.id());
    }
    return ids;
  }

  void deliver(const Event& event) const {
    const Route* route = listeners_.find(event.aggregate_type(), event.type());
    if (route == nullptr) {
      throw PermanentError("no listener for aggregate type " + quote(event.aggregate_type()) +
                           ", event type " + quote(event.type()));
    }
    if (route->listener) return throw_unless_done(route->listener->on_event(event, Delivery{}));
    if (route->batch) return deliver_batch(*route->batch, event);
    std::exception_ptr error;
    for (const Handler& handler : route->fan_out) {
      try {
        throw_unless_done(handler.listener->on_event(event, Delivery{}));
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }

  static void deliver_batch(BatchListener& listener, const Event& event) {
    const BatchListener::Item item{.event = event, .delivery = {}};
    const std::vector<Outcome> outcomes = listener.on_events({&item, 1});
    if (outcomes.size() != 1) {
      throw RetryableError("the batch listener returned " + std::to_string(outcomes.size()) +
                           " outcomes for 1 event");
    }
    throw_unless_done(outcomes.front());
  }

  const Listeners listeners_;
};

}  // namespace

std::unique_ptr<DomainEventPublisher> transactional_publisher(Writer& writer) {
  return std::make_unique<TransactionalPublisher>(writer);
}

std::unique_ptr<DomainEventPublisher> in_memory_publisher(Listeners listeners) {
  return std::make_unique<InMemoryPublisher>(std::move(listeners));
}

PublisherKind publisher_kind(std::string_view text) {
  if (text == "transactional") return PublisherKind::transactional;
  if (text == "in_memory") return PublisherKind::in_memory;
  throw MisuseError("the kind of publisher is " + quote(text) +
                    ", \"transactional\" or \"in_memory\" is wanted");
}

std::unique_ptr<DomainEventPublisher> make_publisher(PublisherKind kind, Writer& writer,
                                                     Listeners listeners) {
  switch (kind) {
    case PublisherKind::transactional:
      return transactional_publisher(writer);
    case PublisherKind::in_memory:
      return in_memory_publisher(std::move(listeners));
  }
  throw MisuseError("the kind of publisher is " + std::to_string(static_cast<int>(kind)) +
                    ", which is not a PublisherKind");
}

}  // namespace outbox

namespace outbox::testing {

std::vector<Event> RecordingPublisher::all() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::vector<Draft> RecordingPublisher::drafts() const {
  const std::lock_guard lock(mutex_);
  return drafts_;
}

std::size_t RecordingPublisher::count() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

void RecordingPublisher::clear() {
  const std::lock_guard lock(mutex_);
  drafts_.clear();
  events_.clear();
  ids_.clear();
}

std::vector<std::string> RecordingPublisher::send(Transaction* /*tx*/, std::vector<Draft> drafts) {
  std::vector<Event> events;
  events.reserve(drafts.size());
  for (const Draft& draft : drafts) events.push_back(make_event(draft));
  std::vector<std::string> ids;
  ids.reserve(events.size());
  for (const Event& event : events) ids.push_back(event.id());
  const std::lock_guard lock(mutex_);
  std::set<std::string> known = ids_;
  for (const std::string& id : ids) {
    if (known.insert(id).second) continue;
    throw MisuseError("an event with the id " + quote(id) +
                      " was published already: leave the id out, or make it unique");
  }
  ids_ = std::move(known);
  drafts_.insert(drafts_.end(), drafts.begin(), drafts.end());
  events_.insert(events_.end(), events.begin(), events.end());
  return ids;
}

}  // namespace outbox::testing
