// Publishers of domain events, for business code that knows nothing of tables.
//
//   const auto publisher = outbox::transactional_publisher(box.writer());
//   auto tx = box.begin();
//   ...
//   publisher->publish(tx, OrderPlaced{.order = "42", .cents = 1999});
//   tx.commit();
//
// The program chooses which one: through the outbox, or immediately in the calling thread, for
// development (publisher_kind()). For your tests there is testing::RecordingPublisher
// (recording_publisher.h).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/transaction.h"
#include "outbox/typed/domain_event.h"
#include "outbox/writer.h"

namespace outbox {

// Takes described structs (describe.h), and Drafts, which it sends unchanged: make them with
// to_draft() to publish events of several types, or with options, together.
//
// Implementations must be thread-safe.
class OUTBOX_EXPORT DomainEventPublisher {
 public:
  virtual ~DomainEventPublisher() = default;

  // In that transaction, or in this thread's open one. Returns the event's id.
  // Throws a MisuseError that names the field if the event cannot be written.
  template <class T>
  std::string publish(Transaction& tx, const T& event, PublishOptions options = {}) {
    return first(send(&tx, one(event, std::move(options))));
  }
  template <class T>
  std::string publish(const T& event, PublishOptions options = {}) {
    return first(send(nullptr, one(event, std::move(options))));
  }

  // Several events: a range, or one by one. All are checked before the first is written.
  template <std::ranges::input_range Range>
  std::vector<std::string> publish_all(Transaction& tx, Range&& events) {
    return send(&tx, drafts_of(events));
  }
  template <std::ranges::input_range Range>
  std::vector<std::string> publish_all(Range&& events) {
    return send(nullptr, drafts_of(events));
  }
  template <class... Ts>
  requires(sizeof...(Ts) > 0 && (!std::ranges::range<Ts> &&
                                 ...)) std::vector<std::string> publish_all(Transaction& tx,
                                                                            const Ts&... events) {
    return send(&tx, drafts_of_each(events...));
  }
  template <class First, class... Ts>
  requires(!std::same_as<First, Transaction> && !std::ranges::range<First>)
      std::vector<std::string> publish_all(const First& first_event, const Ts&... events) {
    return send(nullptr, drafts_of_each(first_event, events...));
  }

 private:
  // `tx` is null if the caller named no transaction. Returns the ids.
  virtual std::vector<std::string> send(Transaction* tx, std::vector<Draft> drafts) = 0;

  template <class T>
  static Draft draft_of(const T& event, PublishOptions options = {}) {
    if constexpr (std::convertible_to<const T&, Draft>) {
      return event;
    } else {
      return to_draft(event, std::move(options));
    }
  }

  template <class T>
  static std::vector<Draft> one(const T& event, PublishOptions options) {
    static_assert(!std::convertible_to<const T&, Draft>,
                  "publish() makes the draft; for one that is made already use publish_all()");
    std::vector<Draft> drafts;
    drafts.push_back(to_draft(event, std::move(options)));
    return drafts;
  }

  template <class Range>
  static std::vector<Draft> drafts_of(Range&& events) {
    std::vector<Draft> drafts;
    for (const auto& event : events) drafts.push_back(draft_of(event));
    return drafts;
  }

  template <class... Ts>
  static std::vector<Draft> drafts_of_each(const Ts&... events) {
    std::vector<Draft> drafts;
    drafts.reserve(sizeof...(Ts));
    (drafts.push_back(draft_of(events)), ...);
    return drafts;
  }

  static std::string first(std::vector<std::string> ids) {
    return ids.empty() ? std::string() : std::move(ids.front());
  }
};

// Through the outbox: the events are written in the caller's transaction and delivered after
// it, or not at all. Without an open transaction it throws MisuseError. The writer must
// outlive it.
OUTBOX_EXPORT std::unique_ptr<DomainEventPublisher> transactional_publisher(Writer& writer);

// Immediately, in the calling thread, without an outbox: for development, and for tests of several
// parts together. The listeners are called before the transaction commits, even if it never does,
// and delays are ignored. Where the outbox would retry the event or make it DEAD, the caller
// gets the error: PermanentError if nobody listens, RetryableError or one of its kinds if the
// listener wants a retry. All handlers of a fan-out are called; the first error is thrown.
OUTBOX_EXPORT std::unique_ptr<DomainEventPublisher> in_memory_publisher(Listeners listeners);

enum class PublisherKind : std::uint8_t { transactional, in_memory };

// "transactional" or "in_memory", as in a configuration. Throws MisuseError for
// anything else.
OUTBOX_EXPORT PublisherKind publisher_kind(std::string_view text);

// Only the in-memory publisher uses the listeners; the transactional one leaves them to the
// dispatcher.
OUTBOX_EXPORT std::unique_ptr<DomainEventPublisher> make_publisher(PublisherKind kind,
                                                                   Writer& writer,
                                                                   Listeners listeners);

}  // namespace outbox
