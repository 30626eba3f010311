// Describes a struct, once, so that it can be published and listened to as an event
// (domain_event.h): without macros, and without changing the struct.
//
//   struct Item { std::string sku; int count = 0; };
//   struct OrderPlaced {
//     std::string order;
//     std::int64_t cents = 0;
//     std::vector<Item> items;
//     std::optional<std::string> coupon;
//   };
//
//   constexpr auto describe(outbox::Type<Item>) {
//     return outbox::object<Item>().field("sku", &Item::sku).field("count", &Item::count);
//   }
//   constexpr auto describe(outbox::Type<OrderPlaced>) {
//     return outbox::event<OrderPlaced>("OrderPlaced")
//         .version(2)
//         .aggregate("Order", &OrderPlaced::order)
//         .field("order", &OrderPlaced::order)
//         .field("cents", &OrderPlaced::cents)
//         .field("items", &OrderPlaced::items)
//         .field("coupon", &OrderPlaced::coupon)
//         .upcast(1, [](outbox::JsonValue old) {  // version 1 said `amount`
//           if (auto amount = old.take("amount")) old.set("cents", *std::move(amount));
//           return old;
//         });
//   }
//
// Define describe() in the namespace of the struct, and before its first use.
//
// A field is a bool, a number, a std::string, an enum, a Time, a JsonValue, another
// described struct, or a std::optional, std::vector or std::map<std::string, ...> of these.
// Reading ignores fields that are not described. A missing field is an error unless it
// is optional or has a fallback. An empty optional is not written, or written as null if it
// has a fallback.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "outbox/event.h"
#include "outbox/typed/json_value.h"

namespace outbox {

// The tag by which describe() is found.
template <class T>
struct Type {};

// A name in a description: a literal, or a value of a NamedEnum. Names live as long as
// the program.
class Label {
 public:
  constexpr Label(const char* text) : text_(text) {}       // NOLINT(google-explicit-constructor)
  constexpr Label(std::string_view text) : text_(text) {}  // NOLINT(google-explicit-constructor)
  template <NamedEnum E>
  constexpr Label(E value) : text_(outbox_name(value)) {  // NOLINT(google-explicit-constructor)
    static_assert(!std::is_same_v<decltype(outbox_name(value)), std::string>,
                  "outbox_name() must return a std::string_view or a literal to be used in a "
                  "description");
  }

  constexpr std::string_view str() const noexcept { return text_; }

 private:
  std::string_view text_;
};

namespace typed {

enum class Part : std::uint8_t {
  aggregate,
  global,
  public_id,
  aggregate_version,
  field,
  payload,
  upcast
};

struct NoFallback {};

template <class Member, class Fallback>
struct FieldPart {
  static constexpr Part kPart = Part::field;
  std::string_view name;
  Member member;
  Fallback fallback;
};

template <class Id>
struct AggregatePart {
  static constexpr Part kPart = Part::aggregate;
  std::string_view type;
  Id id;
};

struct GlobalPart {
  static constexpr Part kPart = Part::global;
};

template <class Get, Part Which>
struct GetPart {
  static constexpr Part kPart = Which;
  Get get;
};

template <class Encode, class Decode>
struct PayloadPart {
  static constexpr Part kPart = Part::payload;
  Encode encode;
  Decode decode;
};

template <class Change>
struct UpcastPart {
  static constexpr Part kPart = Part::upcast;
  int from;
  Change change;
};

// Parts of a description, in the order in which they were given.
template <class... Parts>
class PartList {
 public:
  constexpr explicit PartList(std::tuple<Parts...> parts) : parts_(std::move(parts)) {}

  template <class Added>
  constexpr PartList<Parts..., Added> with(Added part) const {
    return PartList<Parts..., Added>(std::tuple_cat(parts_, std::tuple<Added>(std::move(part))));
  }

  template <Part Which>
  static constexpr std::size_t kCount = (std::size_t{0} + ... +
                                         (Parts::kPart == Which ? std::size_t{1} : 0));

  // Calls `visit` with each part of that kind.
  template <Part Which, class Visit>
  constexpr void each(Visit&& visit) const {
    const auto if_meant = [&visit](const auto& part) {
      if constexpr (std::remove_cvref_t<decltype(part)>::kPart == Which) visit(part);
    };
    std::apply([&if_meant](const auto&... part) { (if_meant(part), ...); }, parts_);
  }

 private:
  std::tuple<Parts...> parts_;
};

// Refuses fallbacks that JSON could not hold for the field: text for a number, a pointer for a
// bool.
template <class Member, class Fallback>
concept FitsField = std::same_as<Fallback, NoFallback> ||
    (std::is_arithmetic_v<Member> ? (std::is_arithmetic_v<Fallback>&& std::same_as<Member, bool> ==
                                     std::same_as<Fallback, bool>)
                                  : std::is_convertible_v<const Fallback&, Member>);

template <class T, class Get>
constexpr void check_getter() {
  static_assert(std::is_invocable_v<const Get&, const T&>,
                "an id or version of an event is a member of it, or a function of (const T&)");
}

template <class T, class Class, class Member, class Fallback>
constexpr void check_member() {
  static_assert(FitsField<Member, Fallback>,
                "the fallback of a field must be a value of the field's type");
  static_assert(std::is_base_of_v<Class, T>, "a field must be a member of the struct described");
  static_assert(std::is_object_v<Member>,
                "a field must be a data member; for anything else use .payload(encode, decode)");
}

}  // namespace typed

// A struct that is part of events. Made by object<T>().
template <class T, class Parts = typed::PartList<>>
class ObjectDescription {
 public:
  using Struct = T;

  constexpr explicit ObjectDescription(Parts parts) : parts_(std::move(parts)) {}

  template <class Class, class Member>
  constexpr auto field(Label name, Member Class::*member) const {
    return field(name, member, typed::NoFallback{});
  }

  // `fallback` is the value of a field that is missing.
  template <class Class, class Member, class Fallback>
  constexpr auto field(Label name, Member Class::*member, Fallback fallback) const {
    typed::check_member<T, Class, Member, Fallback>();
    return with(typed::FieldPart<Member Class::*, Fallback>{name.str(), member, fallback});
  }

  constexpr const Parts& parts() const noexcept { return parts_; }

 private:
  template <class Added>
  constexpr auto with(Added part) const {
    using Longer = decltype(parts_.with(std::move(part)));
    return ObjectDescription<T, Longer>(parts_.with(std::move(part)));
  }

  Parts parts_;
};

template <class T>
constexpr ObjectDescription<T> object() {
  return ObjectDescription<T>(typed::PartList<>(std::tuple<>()));
}

// A struct that is an event. Made by event<T>(name). Needs one of aggregate() and global(),
// and either field()s or payload().
template <class T, class Parts = typed::PartList<>>
class EventDescription {
 public:
  using Struct = T;

  constexpr EventDescription(std::string_view name, int version, Parts parts)
      : name_(name), version_(version), parts_(std::move(parts)) {}

  // The version of events published now, 1 by default; goes into the header `event-version`.
  // Events without that header count as version 1.
  constexpr EventDescription version(int number) const { return {name_, number, parts_}; }

  // The aggregate that it happened to. `id`: a member, or a function of the event, that yields
  // text or an integer.
  template <class Id>
  constexpr auto aggregate(Label type, Id id) const {
    typed::check_getter<T, Id>();
    return with(typed::AggregatePart<Id>{type.str(), std::move(id)});
  }

  // It happened to no aggregate: no aggregate type, and no order among such events.
  constexpr auto global() const { return with(typed::GlobalPart{}); }

  // What others call the aggregate, for the header `public-id`; given like aggregate()'s id.
  template <class Get>
  constexpr auto public_id(Get get) const {
    typed::check_getter<T, Get>();
    return with(typed::GetPart<Get, typed::Part::public_id>{std::move(get)});
  }

  // The version of the aggregate after the event, a signed integer that grows, for the header
  // `aggregate-version`: see VersionGuard in inbox.h.
  template <class Get>
  constexpr auto aggregate_version(Get get) const {
    typed::check_getter<T, Get>();
    return with(typed::GetPart<Get, typed::Part::aggregate_version>{std::move(get)});
  }

  template <class Class, class Member>
  constexpr auto field(Label name, Member Class::*member) const {
    return field(name, member, typed::NoFallback{});
  }

  // `fallback` is the value of a field that is missing.
  template <class Class, class Member, class Fallback>
  constexpr auto field(Label name, Member Class::*member, Fallback fallback) const {
    typed::check_member<T, Class, Member, Fallback>();
    return with(typed::FieldPart<Member Class::*, Fallback>{name.str(), member, fallback});
  }

  // Functions of your own instead of fields. `encode` makes a Payload from the event, with
  // json() or bytes(). `decode` makes the event from a std::string_view; one that also takes the
  // version, an int, gets payloads of every version and needs no upcasts.
  template <class Encode, class Decode>
  constexpr auto payload(Encode encode, Decode decode) const {
    static_assert(std::is_invocable_r_v<Payload, const Encode&, const T&>,
                  "the first function of .payload() makes an outbox::Payload of the event: "
                  "return outbox::json(...) or outbox::bytes(...)");
    static_assert(std::is_invocable_r_v<T, const Decode&, std::string_view> ||
                      std::is_invocable_r_v<T, const Decode&, std::string_view, int>,
                  "the second function of .payload() makes the event of a std::string_view, "
                  "or of that and the version, an int");
    return with(typed::PayloadPart<Encode, Decode>{std::move(encode), std::move(decode)});
  }

  // Converts a JSON payload of version `from` to the next version. Upcasts are chained.
  template <class Change>
  constexpr auto upcast(int from, Change change) const {
    static_assert(std::is_invocable_r_v<JsonValue, const Change&, JsonValue>,
                  "the function of .upcast() takes an outbox::JsonValue and returns one");
    return with(typed::UpcastPart<Change>{from, std::move(change)});
  }

  constexpr std::string_view name() const noexcept { return name_; }
  constexpr int version() const noexcept { return version_; }
  constexpr const Parts& parts() const noexcept { return parts_; }

 private:
  template <class Added>
  constexpr auto with(Added part) const {
    using Longer = decltype(parts_.with(std::move(part)));
    return EventDescription<T, Longer>(name_, version_, parts_.with(std::move(part)));
  }

  std::string_view name_;
  int version_;
  Parts parts_;
};

template <class T>
constexpr EventDescription<T> event(Label name) {
  return EventDescription<T>(name.str(), 1, typed::PartList<>(std::tuple<>()));
}

// An enum whose values are written as their names. (One that is not described is written
// as an integer.)
//
//   constexpr auto describe(outbox::Type<Size>) {
//     return outbox::enumeration<Size>().value("small", Size::small).value("big", Size::big);
//   }
template <class E, std::size_t N = 0>
class EnumDescription {
 public:
  using Enum = E;
  struct Value {
    std::string_view name{};
    E value{};
  };

  constexpr explicit EnumDescription(std::array<Value, N> values) : values_(values) {}

  constexpr EnumDescription<E, N + 1> value(Label name, E value) const {
    std::array<typename EnumDescription<E, N + 1>::Value, N + 1> longer{};
    for (std::size_t i = 0; i < N; ++i) longer[i] = {values_[i].name, values_[i].value};
    longer[N] = {name.str(), value};
    return EnumDescription<E, N + 1>(longer);
  }

  // Of a NamedEnum.
  constexpr EnumDescription<E, N + 1> value(E named) const { return value(Label(named), named); }

  constexpr const std::array<Value, N>& values() const noexcept { return values_; }

 private:
  std::array<Value, N> values_;
};

template <class E>
constexpr EnumDescription<E> enumeration() {
  static_assert(std::is_enum_v<E>, "enumeration<E>() describes an enum");
  return EnumDescription<E>(std::array<typename EnumDescription<E>::Value, 0>{});
}

}  // namespace outbox
