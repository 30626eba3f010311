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
// namespace, and use its values wherever a name is taken:
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
// bytes(); a default-made one is refused when the event is written.
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

// An event before it is written. Only `type` and `payload` are needed:
//
//   tx.write({.type = "OrderPlaced", .aggregate_type = "Order", .aggregate_id = "42",
//             .payload = outbox::json(R"({"cents":1999})")});
struct Draft {
  Name type{};
  Name aggregate_type{kGlobalAggregate};

  // Events of one aggregate are delivered in order. Empty: no order.
  std::string aggregate_id{};

  Payload payload{};
  Headers headers{};

  // Passed through to the listener; no part of the routing or of the order.
  std::string tenant_id{};

  // Not delivered before: a time, or a span from now on. At most one of the two;
  // neither means at once. A delayed event does not hold back its aggregate. Whose clock
  // counts is said in docs/databases.md ("Clocks").
  std::optional<Time> deliver_at{};
  std::optional<std::chrono::microseconds> deliver_after{};

  // Unique in the table. Absent: a ULID that is greater than all that this
  // process made before.
  std::optional<std::string> id{};

  // Absent: now.
  std::optional<Time> occurred_at{};
};

// Everything an event holds; how stores take one apart and put it together.
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

  // Of an event that is to be written with deliver_after: the store counts it from the moment
  // of the INSERT, by the clock that judges it. Absent in what was read.
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

// Checks a draft, fills in what it leaves open, and makes the event. Throws
// MisuseError that names the field and the value if anything is wrong with it.
OUTBOX_EXPORT Event make_event(Draft draft, const Clock& clock = host_clock());

// A new id: a ULID, strictly greater than every one made before in this
// process, whatever the clock does. Thread-safe.
OUTBOX_EXPORT std::string new_id(const Clock& clock = host_clock());

}  // namespace outbox
