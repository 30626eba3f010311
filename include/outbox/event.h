// Events: the draft that a user fills in, and the event that a listener sees.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "outbox/clock.h"
#include "outbox/export.h"

namespace outbox {

// An enum that names events or aggregates. Describe it once, in its own
// namespace, and use its values wherever a name is expected:
//
//   enum class OrderEvent { placed, shipped };
//   std::string_view outbox_name(OrderEvent e) {
//     return e == OrderEvent::placed ? "OrderPlaced" : "OrderShipped";
//   }
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) {
  { outbox_name(value) } -> std::convertible_to<std::string_view>;
};

// The name of an event type or of an aggregate type: a string or a NamedEnum.
class Name {
 public:
  Name() = default;
  Name(std::nullptr_t) = delete;
  Name(const char* name) : text_(name) {}             // NOLINT(google-explicit-constructor)
  Name(std::string name) : text_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  Name(std::string_view name) : text_(name) {}        // NOLINT(google-explicit-constructor)
  template <NamedEnum E>
  Name(E value)
      : text_(std::string_view(outbox_name(value))) {}  // NOLINT(google-explicit-constructor)

  const std::string& str() const noexcept { return text_; }
  friend bool operator==(const Name&, const Name&) = default;

 private:
  std::string text_;
};

// The aggregate type of events that name none.
inline constexpr std::string_view kGlobalAggregate = "__GLOBAL__";

// Limits, inclusive: bytes for the payload, code points for the rest. Times lie
// in the years 1000 to 9999, which every supported database keeps.
inline constexpr std::size_t kMaxPayloadBytes = 1'048'576;
inline constexpr std::size_t kMaxIdLength = 36;
inline constexpr std::size_t kMaxTypeLength = 128;
inline constexpr std::size_t kMaxAggregateTypeLength = 64;
inline constexpr std::size_t kMaxAggregateIdLength = 128;
inline constexpr std::size_t kMaxTenantIdLength = 64;
inline constexpr std::size_t kMaxContentTypeLength = 128;

// Keys are unique and come out sorted; keys and values come out byte for byte.
using Headers = std::map<std::string, std::string, std::less<>>;

// What an event carries: JSON text or bytes, never both. Made by json() and
// bytes(); a default-constructed one is refused when the event is written.
class Payload {
 public:
  enum class Kind : std::uint8_t { none, json, bytes };

  Payload() = default;

  Kind kind() const noexcept { return kind_; }
  const std::string& data() const noexcept { return data_; }
  const std::string& content_type() const noexcept { return content_type_; }

 private:
  friend Payload json(std::string text, std::string content_type);
  friend Payload bytes(std::string data, std::string content_type);

  Payload(Kind kind, std::string data, std::string content_type)
      : kind_(kind), data_(std::move(data)), content_type_(std::move(content_type)) {}

  Kind kind_ = Kind::none;
  std::string data_;
  std::string content_type_;
};

// JSON text. It is checked when the event is written and stored as it is.
OUTBOX_EXPORT Payload json(std::string text, std::string content_type = "application/json");

// Any bytes, NUL and invalid UTF-8 included.
OUTBOX_EXPORT Payload bytes(std::string data,
                            std::string content_type = "application/octet-stream");
OUTBOX_EXPORT Payload bytes(std::span<const std::byte> data,
                            std::string content_type = "application/octet-stream");

// The fields of a Draft. Each takes every type that is meaningful for it; anything else fails to
// compile, with an error that names the field.
namespace draft_field {

template <class T>
concept NameLike = std::convertible_to<T, Name>;
template <class T>
concept TextLike =
    !std::is_null_pointer_v<T> && std::constructible_from<std::string, T> &&
    (std::convertible_to<T, std::string> || std::convertible_to<T, std::string_view>);
// Neither bool nor characters: they would become unexpected text.
template <class T>
concept IntegerLike = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                      !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                      !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;
template <class T>
concept IdLike = TextLike<T> || IntegerLike<T> || NamedEnum<T>;

template <class T>
Name name_of(T value) {
  if constexpr (NameLike<T>) return Name(std::move(value));
  return {};
}

template <class T>
std::string text_of(T value) {
  if constexpr (IntegerLike<T>) return std::to_string(value);
  if constexpr (NamedEnum<T>) return std::string(std::string_view(outbox_name(value)));
  if constexpr (TextLike<T>) return std::string(std::move(value));
  return {};
}

// Up to a whole microsecond, so that nothing comes early; or down. Times out of range are clamped,
// and refused when the event is made.
enum class Round : std::uint8_t { up, down };

template <Round round, class Rep, class Period>
constexpr std::chrono::microseconds microseconds_of(std::chrono::duration<Rep, Period> span) {
  using std::chrono::microseconds;
  constexpr double kRange = 9.2e18;
  const std::chrono::duration<double, std::micro> about(span);
  if (!(about.count() < kRange)) return microseconds::max();
  if (about.count() < -kRange) return microseconds::min();
  const auto in_whole = [](auto exact) {
    if constexpr (round == Round::up) return std::chrono::ceil<microseconds>(exact);
    if constexpr (round == Round::down) return std::chrono::floor<microseconds>(exact);
  };
  if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
    return in_whole(about);
  } else {
    return in_whole(span);
  }
}

template <Round round, class D>
constexpr std::optional<Time> time_of(const std::chrono::sys_time<D>& time) {
  return Time(microseconds_of<round>(time.time_since_epoch()));
}
template <Round round, class D>
constexpr std::optional<Time> time_of(const std::optional<std::chrono::sys_time<D>>& time) {
  return time ? time_of<round>(*time) : std::nullopt;
}
template <Round round>
constexpr std::optional<Time> time_of(std::nullopt_t /*none*/) {
  return std::nullopt;
}

template <class Rep, class Period>
constexpr std::optional<std::chrono::microseconds> span_of(
    const std::chrono::duration<Rep, Period>& span) {
  return microseconds_of<Round::up>(span);
}
template <class Rep, class Period>
constexpr std::optional<std::chrono::microseconds> span_of(
    const std::optional<std::chrono::duration<Rep, Period>>& span) {
  return span ? span_of(*span) : std::nullopt;
}
constexpr std::optional<std::chrono::microseconds> span_of(std::nullopt_t /*none*/) {
  return std::nullopt;
}

template <class T>
concept TimeLike = requires(const T& time) {
  time_of<Round::up>(time);
};
template <Round round, class T>
constexpr std::optional<Time> time_or_none(const T& time) {
  if constexpr (TimeLike<T>) return time_of<round>(time);
  return std::nullopt;
}

template <class T>
concept SpanLike = requires(const T& span) {
  span_of(span);
};
template <class T>
constexpr std::optional<std::chrono::microseconds> span_or_none(const T& span) {
  if constexpr (SpanLike<T>) return span_of(span);
  return std::nullopt;
}

class Type : public Name {
 public:
  Type() = default;
  template <class T>
  Type(T name) : Name(name_of(std::move(name))) {  // NOLINT(google-explicit-constructor)
    static_assert(NameLike<T>, "`type` takes text, or an enum that has an outbox_name()");
  }
};

class AggregateType : public Name {
 public:
  template <class T>
  AggregateType(T name) : Name(name_of(std::move(name))) {  // NOLINT(google-explicit-constructor)
    static_assert(NameLike<T>, "`aggregate_type` takes text, or an enum that has an outbox_name()");
  }
};

class Text {
 public:
  Text() = default;
  explicit Text(std::string text) : text_(std::move(text)) {}

  const std::string& str() const noexcept { return text_; }

  friend bool operator==(const Text&, const Text&) = default;
  friend bool operator==(const Text& text, std::string_view other) { return text.text_ == other; }

 private:
  std::string text_;
};

class AggregateId : public Text {
 public:
  AggregateId() = default;
  template <class T>
  AggregateId(T id) : Text(text_of(std::move(id))) {  // NOLINT(google-explicit-constructor)
    static_assert(IdLike<T>,
                  "`aggregate_id` takes text, an integer, or an enum that has an outbox_name()");
  }
};

class TenantId : public Text {
 public:
  TenantId() = default;
  template <class T>
  TenantId(T id) : Text(text_of(std::move(id))) {  // NOLINT(google-explicit-constructor)
    static_assert(IdLike<T>,
                  "`tenant_id` takes text, an integer, or an enum that has an outbox_name()");
  }
};

class Id : public std::optional<std::string> {
 public:
  Id() = default;
  Id(std::nullopt_t /*none*/) {}  // NOLINT(google-explicit-constructor)
  Id(std::optional<std::string> id)
      : optional(std::move(id)) {}  // NOLINT(google-explicit-constructor)
  template <class T>
  Id(T id) : optional(text_of(std::move(id))) {  // NOLINT(google-explicit-constructor)
    static_assert(IdLike<T>, "`id` takes text, an integer, or an enum that has an outbox_name()");
  }
};

class DeliverAt : public std::optional<Time> {
 public:
  DeliverAt() = default;
  template <class T>
  DeliverAt(T time)
      : optional(time_or_none<Round::up>(time)) {  // NOLINT(google-explicit-constructor)
    static_assert(TimeLike<T>, "`deliver_at` takes a time of std::chrono::system_clock");
  }
};

class OccurredAt : public std::optional<Time> {
 public:
  OccurredAt() = default;
  template <class T>
  OccurredAt(T time)
      : optional(time_or_none<Round::down>(time)) {  // NOLINT(google-explicit-constructor)
    static_assert(TimeLike<T>, "`occurred_at` takes a time of std::chrono::system_clock");
  }
};

class DeliverAfter : public std::optional<std::chrono::microseconds> {
 public:
  DeliverAfter() = default;
  template <class T>
  DeliverAfter(T span) : optional(span_or_none(span)) {  // NOLINT(google-explicit-constructor)
    static_assert(SpanLike<T>, "`deliver_after` takes a span of time, such as 5min or 200ms");
  }
};

}  // namespace draft_field

// An event before it is written. Only `type` and `payload` are needed:
//
//   tx.write({.type = "OrderPlaced", .aggregate_type = "Order", .aggregate_id = 42,
//             .payload = outbox::json(R"({"cents":1999})")});
//
// event() makes one call by call.
struct Draft {
  draft_field::Type type{};
  draft_field::AggregateType aggregate_type{kGlobalAggregate};

  // Events of one aggregate are delivered in order. Text or an integer. Empty: no order.
  draft_field::AggregateId aggregate_id{};

  Payload payload{};
  Headers headers{};

  // Passed through to the listener; plays no part in routing or order.
  draft_field::TenantId tenant_id{};

  // Not delivered before this: a time of std::chrono::system_clock, or a delay from now, in any
  // unit. At most one of the two; neither means at once. A delayed event does not hold back its
  // aggregate. docs/databases.md ("Clocks") says whose clock counts.
  draft_field::DeliverAt deliver_at{};
  draft_field::DeliverAfter deliver_after{};

  // Unique in the table. Absent: a ULID that is greater than all made by this process
  // before.
  draft_field::Id id{};

  // Absent: now.
  draft_field::OccurredAt occurred_at{};
};

// Builds a Draft call by call; made by event(). Each call sets the field of Draft of that name.
class DraftBuilder {
 public:
  explicit DraftBuilder(draft_field::Type type) { draft_.type = std::move(type); }

  DraftBuilder& aggregate(draft_field::AggregateType type, draft_field::AggregateId id) & {
    draft_.aggregate_type = std::move(type);
    draft_.aggregate_id = std::move(id);
    return *this;
  }
  DraftBuilder& json(std::string text) & { return payload(outbox::json(std::move(text))); }
  DraftBuilder& bytes(std::string data) & { return payload(outbox::bytes(std::move(data))); }
  DraftBuilder& payload(Payload payload) & {
    draft_.payload = std::move(payload);
    return *this;
  }
  // The last value of a key wins.
  DraftBuilder& header(std::string key, std::string value) & {
    draft_.headers.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }
  DraftBuilder& tenant_id(draft_field::TenantId id) & {
    draft_.tenant_id = std::move(id);
    return *this;
  }
  DraftBuilder& deliver_at(draft_field::DeliverAt time) & {
    draft_.deliver_at = time;
    return *this;
  }
  DraftBuilder& deliver_after(draft_field::DeliverAfter span) & {
    draft_.deliver_after = span;
    return *this;
  }
  DraftBuilder& id(draft_field::Id id) & {
    draft_.id = std::move(id);
    return *this;
  }
  DraftBuilder& occurred_at(draft_field::OccurredAt time) & {
    draft_.occurred_at = time;
    return *this;
  }

  // The same for a temporary, without a copy.
  DraftBuilder aggregate(draft_field::AggregateType type, draft_field::AggregateId id) && {
    return std::move(aggregate(std::move(type), std::move(id)));
  }
  DraftBuilder json(std::string text) && { return std::move(json(std::move(text))); }
  DraftBuilder bytes(std::string data) && { return std::move(bytes(std::move(data))); }
  DraftBuilder payload(Payload value) && { return std::move(payload(std::move(value))); }
  DraftBuilder header(std::string key, std::string value) && {
    return std::move(header(std::move(key), std::move(value)));
  }
  DraftBuilder tenant_id(draft_field::TenantId id) && {
    return std::move(tenant_id(std::move(id)));
  }
  DraftBuilder deliver_at(draft_field::DeliverAt time) && { return std::move(deliver_at(time)); }
  DraftBuilder deliver_after(draft_field::DeliverAfter span) && {
    return std::move(deliver_after(span));
  }
  DraftBuilder id(draft_field::Id value) && { return std::move(id(std::move(value))); }
  DraftBuilder occurred_at(draft_field::OccurredAt time) && { return std::move(occurred_at(time)); }

  operator Draft() const& { return draft_; }         // NOLINT(google-explicit-constructor)
  operator Draft() && { return std::move(draft_); }  // NOLINT(google-explicit-constructor)

 private:
  Draft draft_;
};

// Begins a Draft:
//
//   tx.write(outbox::event("OrderPlaced").aggregate("Order", 42).json(R"({"cents":1999})"));
//
// (With a type in angle brackets it describes a struct instead: typed/describe.h.)
inline DraftBuilder event(draft_field::Type type) { return DraftBuilder(std::move(type)); }

// Everything an event holds; stores read and restore events by it.
struct EventFields {
  std::string id{};
  std::string type{};
  std::string aggregate_type{kGlobalAggregate};
  std::string aggregate_id{};
  std::string tenant_id{};
  Headers headers{};
  Payload payload{};
  Time occurred_at{};
  Time available_at{};

  // Of an event written with deliver_after: the store counts it from the INSERT on, by the
  // store's clock. Absent in events that were read.
  std::optional<std::chrono::microseconds> delay{};
};

// An event as it is stored and delivered: complete, valid and immutable.
//
// Copies share their contents and are cheap. Thread-safe.
class OUTBOX_EXPORT Event {
 public:
  // Takes fields that were valid when they were written; checks nothing.
  static Event restore(EventFields fields);

  const std::string& id() const noexcept { return fields_->id; }
  const std::string& type() const noexcept { return fields_->type; }
  const std::string& aggregate_type() const noexcept { return fields_->aggregate_type; }
  const std::string& aggregate_id() const noexcept { return fields_->aggregate_id; }
  const std::string& tenant_id() const noexcept { return fields_->tenant_id; }
  const Headers& headers() const noexcept { return fields_->headers; }
  std::optional<std::string_view> header(std::string_view key) const;
  const std::string& payload() const noexcept { return fields_->payload.data(); }
  bool is_json() const noexcept { return fields_->payload.kind() == Payload::Kind::json; }
  const std::string& content_type() const noexcept { return fields_->payload.content_type(); }
  Time occurred_at() const noexcept { return fields_->occurred_at; }
  Time available_at() const noexcept { return fields_->available_at; }
  std::optional<std::chrono::microseconds> delay() const noexcept { return fields_->delay; }

 private:
  explicit Event(std::shared_ptr<const EventFields> fields) : fields_(std::move(fields)) {}

  std::shared_ptr<const EventFields> fields_;
};

// Checks a draft, fills in the defaults, and makes the event. Throws a MisuseError
// that names the field and the value if anything is wrong with it.
OUTBOX_EXPORT Event make_event(Draft draft, const Clock& clock = host_clock());

// A new id: a ULID, strictly greater than every one made before in this
// process, whatever the clock does. Thread-safe.
OUTBOX_EXPORT std::string new_id(const Clock& clock = host_clock());

}  // namespace outbox
