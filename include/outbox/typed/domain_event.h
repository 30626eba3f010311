// Domain events: structs that are described once (describe.h), then published and listened to.
//
//   publisher.publish(tx, OrderPlaced{.order = "42", .cents = 1999});             // publisher.h
//   on.on<OrderPlaced>([](const OrderPlaced& order) { bill(order.order, order.cents); });
//
// Events carry the headers `event-id`, `event-version`, and where they are known `public-id`,
// `aggregate-version`, `trace-id`, `request-id`, `operator` and `tenant-id`.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "outbox/clock.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/typed/describe.h"
#include "outbox/typed/json_fields.h"
#include "outbox/typed/json_value.h"
#include "outbox/typed/request.h"

namespace outbox {

struct PublishOptions {
  // Take precedence over those that the library sets.
  Headers headers{};

  // As in Draft.
  draft_field::DeliverAt deliver_at{};
  draft_field::DeliverAfter deliver_after{};
  draft_field::Id id{};
  draft_field::OccurredAt occurred_at{};
};

// The draft of an event, with the headers of the current request (request.h) and
// trace. For connections of your own: writer.write(own, to_draft(OrderPlaced{...})). Throws a
// MisuseError that names the field if JSON cannot hold its value.
template <class T>
Draft to_draft(const T& event, PublishOptions options = {});

// The struct that was published. If the event does not hold one, or one of a newer version than
// described, throws a PermanentError that names type, version, field, what was found and what was
// wanted; so does a listener of T, and its event is DEAD at once.
template <class T>
T from_event(const Event& event);

// Listener and handler of T; `function` is as for Listeners::on(). While it runs, the
// request of the event is the current one, so that events it publishes carry the
// same request id, operator and tenant.
template <class T, class F>
requires(!std::same_as<T, F>) std::shared_ptr<Listener> listener(F function);

template <class T, class F>
requires(!std::same_as<T, F>) Handler handler(std::string name, F function);

// The value of the header `aggregate-version`, for VersionGuard::advance(). Throws
// PermanentError if it is not an integer.
OUTBOX_EXPORT std::optional<std::int64_t> aggregate_version(const Event& event);

// --- implementation of the templates ---

namespace typed {

// The names and versions of a description, without its types.
struct EventNames {
  std::string_view type;
  std::string_view aggregate_type;
  int version = 1;
};

// Throws MisuseError if the description is invalid.
OUTBOX_EXPORT void check_event_description(const EventNames& names,
                                           const std::vector<int>& upcasts);

struct DraftParts {
  std::string aggregate_id{};
  std::optional<std::string> public_id{};
  std::optional<std::string> aggregate_version{};
  Payload payload{};
};
OUTBOX_EXPORT Draft make_draft(const EventNames& names, DraftParts parts, PublishOptions options);

// "OrderPlaced version 2"
OUTBOX_EXPORT std::string event_subject(const EventNames& names, int version);

// The version of a payload. Throws PermanentError if the event is not the described one,
// or of an unknown version.
OUTBOX_EXPORT int payload_version(const EventNames& names, const Event& event);
OUTBOX_EXPORT JsonValue json_payload(const EventNames& names, int version, const Event& event);
OUTBOX_EXPORT [[noreturn]] void refuse_old_version(const EventNames& names, int version,
                                                   int missing);

// Calls the user's functions for payloads. Their exceptions are about the payload, and so
// permanent, unless they say otherwise.
OUTBOX_EXPORT [[noreturn]] void rethrow_for_payload(const EventNames& names, int version);
template <class Call>
auto blaming_payload(const EventNames& names, int version, Call call) {
  try {
    return call();
  } catch (...) {
    rethrow_for_payload(names, version);
  }
}

// Compile-time messages for incomplete descriptions, one after the other.
template <class T>
constexpr bool check_event_type() {
  static_assert(HasDescription<T>,
                "describe(outbox::Type<T>) is missing: define it in the namespace of T and before "
                "its first use, and return outbox::event<T>(\"Name\").aggregate(...).field(...)");
  if constexpr (HasDescription<T>) {
    static_assert(DescribedEvent<T>,
                  "describe(outbox::Type<T>) does not describe an event: return "
                  "outbox::event<T>(\"Name\"); outbox::object<T>() is for parts of events");
  }
  if constexpr (DescribedEvent<T>) {
    using Parts = std::remove_cvref_t<decltype(describe(Type<T>{}).parts())>;
    constexpr std::size_t kTargets =
        Parts::template kCount<Part::aggregate> + Parts::template kCount<Part::global>;
    constexpr std::size_t kPayloads = Parts::template kCount<Part::payload>;
    constexpr bool kHasFields = Parts::template kCount < Part::field >> 0;
    static_assert(kTargets > 0,
                  "the description of an event needs .aggregate(type, id) or .global()");
    static_assert(kTargets < 2,
                  "the description of an event has .aggregate(type, id) or .global(), and once");
    static_assert(kHasFields || kPayloads > 0,
                  "a described event needs .field(...)s or .payload(encode, decode)");
    static_assert(kPayloads < 2 && !(kHasFields && kPayloads > 0),
                  "a described event has .field(...)s or one .payload(encode, decode), not both");
    static_assert(Parts::template kCount<Part::public_id> < 2 &&
                      Parts::template kCount<Part::aggregate_version> < 2,
                  "a described event has at most one .public_id() and one .aggregate_version()");
    return kTargets == 1 && (kHasFields ? kPayloads == 0 : kPayloads == 1);
  }
  return false;
}

template <class T>
EventNames names_of() {
  const auto& description = description_of<T>();
  EventNames names{description.name(), kGlobalAggregate, description.version()};
  description.parts().template each<Part::aggregate>(
      [&names](const auto& part) { names.aggregate_type = part.type; });
  return names;
}

// Checked once.
template <class T>
const EventNames& event_names() {
  static const EventNames names = [] {
    const EventNames found = names_of<T>();
    std::vector<int> upcasts;
    description_of<T>().parts().template each<Part::upcast>(
        [&upcasts](const auto& part) { upcasts.push_back(part.from); });
    check_event_description(found, upcasts);
    return found;
  }();
  return names;
}

template <class Get, class T>
std::string id_text(const Get& get, const T& event) {
  using Id = std::remove_cvref_t<std::invoke_result_t<const Get&, const T&>>;
  static_assert(IntegerField<Id> || std::convertible_to<Id, std::string_view>,
                "an id of an event must be text or an integer");
  if constexpr (IntegerField<Id>) {
    return std::to_string(std::invoke(get, event));
  } else {
    return std::string(std::string_view(std::invoke(get, event)));
  }
}

template <class Get, class T>
std::string version_text(const Get& get, const T& event) {
  using Version = std::remove_cvref_t<std::invoke_result_t<const Get&, const T&>>;
  static_assert(IntegerField<Version> && (sizeof(Version) < 8 || std::is_signed_v<Version>),
                "the version of an aggregate must be an integer that a std::int64_t can hold");
  return std::to_string(std::invoke(get, event));
}

template <class T>
Payload payload_of(const T& event) {
  const auto& parts = description_of<T>().parts();
  if constexpr (std::remove_cvref_t<decltype(parts)>::template kCount < Part::payload >> 0) {
    Payload payload;
    parts.template each<Part::payload>(
        [&](const auto& part) { payload = std::invoke(part.encode, event); });
    return payload;
  } else {
    const std::string subject = event_subject(event_names<T>(), event_names<T>().version);
    std::string text;
    write_fields(text, event, Place(subject));
    return json(std::move(text));
  }
}

// Converts a payload from its version to the described one.
template <class T>
JsonValue upcast(JsonValue value, int version) {
  const EventNames& names = event_names<T>();
  for (int from = version; from < names.version; ++from) {
    bool found = false;
    description_of<T>().parts().template each<Part::upcast>([&](const auto& part) {
      if (part.from != from || found) return;
      found = true;
      value =
          blaming_payload(names, version, [&] { return JsonValue(part.change(std::move(value))); });
    });
    if (!found) refuse_old_version(names, version, from);
  }
  return value;
}

template <class T, class Decode>
T decode(const Decode& decode, const Event& event, int version) {
  const EventNames& names = event_names<T>();
  if constexpr (std::is_invocable_r_v<T, const Decode&, std::string_view, int>) {
    return blaming_payload(names, version, [&]() -> T { return decode(event.payload(), version); });
  } else if (version == names.version) {
    return blaming_payload(names, version, [&]() -> T { return decode(event.payload()); });
  } else {
    const std::string text = upcast<T>(json_payload(names, version, event), version).dump();
    return blaming_payload(names, version, [&]() -> T { return decode(text); });
  }
}

// Calls the function with as many arguments as it takes.
template <class T, class F>
class TypedListener final : public Listener {
 public:
  explicit TypedListener(F function) : function_(std::move(function)) {}

  Outcome on_event(const Event& event, const Delivery& delivery) override {
    const RequestScope scope(request_of(event));
    const T typed = from_event<T>(event);
    if constexpr (std::is_invocable_v<F&, const T&, const Event&, const Delivery&>) {
      return internal::outcome_of_call([&] { return function_(typed, event, delivery); });
    } else if constexpr (std::is_invocable_v<F&, const T&, const Event&>) {
      return internal::outcome_of_call([&] { return function_(typed, event); });
    } else {
      return internal::outcome_of_call([&] { return function_(typed); });
    }
  }

 private:
  F function_;
};

// Makes the event's request the current one. Null for null.
OUTBOX_EXPORT std::shared_ptr<Listener> in_request_scope(std::shared_ptr<Listener> inner);

}  // namespace typed

template <class T>
Draft to_draft(const T& event, PublishOptions options) {
  if constexpr (typed::check_event_type<T>()) {
    typed::DraftParts made;
    const auto& parts = typed::description_of<T>().parts();
    parts.template each<typed::Part::aggregate>(
        [&](const auto& part) { made.aggregate_id = typed::id_text(part.id, event); });
    parts.template each<typed::Part::public_id>(
        [&](const auto& part) { made.public_id = typed::id_text(part.get, event); });
    parts.template each<typed::Part::aggregate_version>(
        [&](const auto& part) { made.aggregate_version = typed::version_text(part.get, event); });
    made.payload = typed::payload_of(event);
    return typed::make_draft(typed::event_names<T>(), std::move(made), std::move(options));
  } else {
    return {};
  }
}

template <class T>
T from_event(const Event& event) {
  using typed::Part;
  static_assert(typed::check_event_type<T>());
  const typed::EventNames& names = typed::event_names<T>();
  const int version = typed::payload_version(names, event);
  const auto& parts = typed::description_of<T>().parts();
  if constexpr (std::remove_cvref_t<decltype(parts)>::template kCount < Part::payload >> 0) {
    std::optional<T> made;
    parts.template each<Part::payload>(
        [&](const auto& part) { made.emplace(typed::decode<T>(part.decode, event, version)); });
    return *std::move(made);
  } else {
    const JsonValue value = typed::upcast<T>(typed::json_payload(names, version, event), version);
    const std::string subject = typed::event_subject(names, version);
    return typed::read_fields<T>(value, typed::Place(subject));
  }
}

template <class T, class F>
requires(!std::same_as<T, F>) std::shared_ptr<Listener> listener(F function) {
  if constexpr (std::is_convertible_v<F, std::shared_ptr<Listener>>) {
    return typed::in_request_scope(std::move(function));
  } else {
    static_assert(std::is_invocable_v<F&, const T&> ||
                      std::is_invocable_v<F&, const T&, const Event&> ||
                      std::is_invocable_v<F&, const T&, const Event&, const Delivery&>,
                  "a listener of T takes (const T&), (const T&, const Event&) or (const T&, const "
                  "Event&, const Delivery&)");
    if constexpr (typed::check_event_type<T>()) {
      if (internal::is_null(function)) return nullptr;
      return std::make_shared<typed::TypedListener<T, F>>(std::move(function));
    } else {
      return nullptr;
    }
  }
}

template <class T, class F>
requires(!std::same_as<T, F>) Handler handler(std::string name, F function) {
  return {std::move(name), listener<T>(std::move(function))};
}

template <class T, class F>
Listeners& Listeners::on(F function, ListenerOptions options) {
  if constexpr (typed::check_event_type<T>()) {
    const typed::EventNames& names = typed::event_names<T>();
    return add_route(
        names.aggregate_type, names.type,
        {.listener = outbox::listener<T>(std::move(function)), .options = std::move(options)});
  } else {
    return *this;
  }
}

template <class T>
Listeners& Listeners::fan_out(std::vector<Handler> handlers, ListenerOptions options) {
  if constexpr (typed::check_event_type<T>()) {
    const typed::EventNames& names = typed::event_names<T>();
    return fan_out(names.aggregate_type, names.type, std::move(handlers), std::move(options));
  } else {
    return *this;
  }
}

}  // namespace outbox
