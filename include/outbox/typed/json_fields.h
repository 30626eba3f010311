// Described structs (describe.h) as JSON. Used by domain_event.h; include that.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "outbox/clock.h"
#include "outbox/export.h"
#include "outbox/typed/describe.h"
#include "outbox/typed/json_value.h"

namespace outbox::typed {

// A place in a payload, for messages. Places form a list on the stack, from the inside out,
// which is turned into text only when something is wrong.
class OUTBOX_EXPORT Place {
 public:
  // The whole payload; `subject`: of what, e.g. "OrderPlaced version 2".
  explicit Place(std::string_view subject) : name_(subject) {}
  Place(const Place& outer, std::string_view field)
      : outer_(&outer), depth_(outer.depth_ + 1), name_(field) {}
  Place(const Place& outer, std::size_t index)
      : outer_(&outer), depth_(outer.depth_ + 1), index_(index) {}

  // "OrderPlaced version 2: items[2].sku"
  std::string text() const;

  // How many objects and arrays are around it.
  std::size_t depth() const noexcept { return depth_; }

 private:
  const Place* outer_ = nullptr;
  std::size_t depth_ = 0;
  std::string_view name_{};
  std::optional<std::size_t> index_{};
};

// Throw a MisuseError that names the place for values that JSON cannot hold: text that is not
// UTF-8, numbers that are not finite, times outside the years 1000 to 9999, and values nested
// deeper than kMaxJsonDepth, which nobody could read again.
OUTBOX_EXPORT void append_text(std::string& out, std::string_view text, const Place& place);
OUTBOX_EXPORT void append_number(std::string& out, double value, const Place& place);
OUTBOX_EXPORT void append_number(std::string& out, float value, const Place& place);
OUTBOX_EXPORT void append_time(std::string& out, Time time, const Place& place);
OUTBOX_EXPORT void append_json(std::string& out, const JsonValue& value, const Place& place);
OUTBOX_EXPORT void check_depth(const Place& place);  // of an object or array
OUTBOX_EXPORT [[noreturn]] void refuse_unnamed(std::int64_t value, const Place& place);

// Throw a PermanentError that names the place, what was found and what was wanted.
OUTBOX_EXPORT bool read_bool(const JsonValue& value, const Place& place);
OUTBOX_EXPORT std::int64_t read_signed(const JsonValue& value, std::int64_t min, std::int64_t max,
                                       const Place& place);
OUTBOX_EXPORT std::uint64_t read_unsigned(const JsonValue& value, std::uint64_t max,
                                          const Place& place);
OUTBOX_EXPORT double read_double(const JsonValue& value, const Place& place);
OUTBOX_EXPORT float read_float(const JsonValue& value, const Place& place);
OUTBOX_EXPORT const std::string& read_text(const JsonValue& value, const Place& place);
OUTBOX_EXPORT Time read_time(const JsonValue& value, const Place& place);
OUTBOX_EXPORT const std::vector<JsonValue>& read_array(const JsonValue& value, const Place& place);
OUTBOX_EXPORT const std::vector<JsonValue::Member>& read_object(const JsonValue& value,
                                                                const Place& place);
OUTBOX_EXPORT [[noreturn]] void refuse_missing(std::string_view wanted, const Place& place);
OUTBOX_EXPORT [[noreturn]] void refuse_name(const std::vector<std::string_view>& names,
                                            const Place& place);

// --- descriptions ---

template <class T>
concept HasDescription = requires {
  describe(Type<T>{});
};

template <class T>
struct IsObjectDescription : std::false_type {};
template <class T, class Parts>
struct IsObjectDescription<ObjectDescription<T, Parts>> : std::true_type {};
template <class T>
struct IsEventDescription : std::false_type {};
template <class T, class Parts>
struct IsEventDescription<EventDescription<T, Parts>> : std::true_type {};

template <class T>
using DescriptionOf = std::remove_cvref_t<decltype(describe(Type<T>{}))>;

template <class T>
concept DescribedEvent = HasDescription<T> && IsEventDescription<DescriptionOf<T>>::value;
template <class T>
concept DescribedStruct = DescribedEvent<T> ||
    (HasDescription<T>&& IsObjectDescription<DescriptionOf<T>>::value);
template <class E>
concept DescribedEnum = std::is_enum_v<E> && HasDescription<E>;

// Throws MisuseError if a field, or a value of an enum, has a duplicate name, or none.
OUTBOX_EXPORT void check_fields(const std::vector<std::string_view>& names);

template <class Description>
Description checked_fields(Description description) {
  std::vector<std::string_view> names;
  description.parts().template each<Part::field>(
      [&names](const auto& field) { names.push_back(field.name); });
  check_fields(names);
  return description;
}

// Made and checked once.
template <DescribedStruct T>
const DescriptionOf<T>& description_of() {
  static_assert(std::is_same_v<typename DescriptionOf<T>::Struct, T>,
                "describe(outbox::Type<T>) returns the description of another struct");
  static const DescriptionOf<T> description = checked_fields(describe(Type<T>{}));
  return description;
}

template <DescribedEnum E>
const auto& enum_values() {
  static_assert(std::is_same_v<typename DescriptionOf<E>::Enum, E>,
                "describe(outbox::Type<E>) returns the description of another enum");
  static const auto values = [] {
    const DescriptionOf<E> description = describe(Type<E>{});
    std::vector<std::string_view> names;
    for (const auto& value : description.values()) names.push_back(value.name);
    check_fields(names);
    return description.values();
  }();
  return values;
}

// --- kinds of fields ---

template <class T>
struct IsOptionalField : std::false_type {};
template <class T>
struct IsOptionalField<std::optional<T>> : std::true_type {};
template <class T>
struct IsVectorField : std::false_type {};
template <class T>
struct IsVectorField<std::vector<T>> : std::true_type {};
template <class T>
struct IsMapField : std::false_type {};
template <class T, class Less>
struct IsMapField<std::map<std::string, T, Less>> : std::true_type {};

template <class Field>
inline constexpr bool kHasFallback =
    !std::same_as<decltype(std::remove_cvref_t<Field>::fallback), NoFallback>;

template <class T>
concept CharacterField = std::same_as<T, char> || std::same_as<T, wchar_t> ||
    std::same_as<T, char8_t> || std::same_as<T, char16_t> || std::same_as<T, char32_t>;
template <class T>
concept IntegerField = std::integral<T> && !std::same_as<T, bool> && !CharacterField<T>;

// For messages; null for types that no field can have.
template <class T>
constexpr const char* wanted_for() {
  if constexpr (std::same_as<T, bool>) {
    return "a boolean";
  } else if constexpr (IntegerField<T>) {
    return "an integer";
  } else if constexpr (std::same_as<T, double> || std::same_as<T, float>) {
    return "a number";
  } else if constexpr (std::same_as<T, std::string>) {
    return "a string";
  } else if constexpr (std::same_as<T, Time>) {
    return "a time";
  } else if constexpr (std::same_as<T, JsonValue>) {
    return "a value";
  } else if constexpr (DescribedEnum<T>) {
    return "a name";
  } else if constexpr (std::is_enum_v<T>) {
    return "an integer";
  } else if constexpr (IsOptionalField<T>::value) {
    return wanted_for<typename T::value_type>();
  } else if constexpr (IsVectorField<T>::value) {
    return "an array";
  } else if constexpr (IsMapField<T>::value || DescribedStruct<T>) {
    return "an object";
  } else {
    return nullptr;
  }
}

template <class T>
constexpr void check_field_type() {
  static_assert(wanted_for<T>() != nullptr,
                "a field must be a bool, a number, a std::string, an enum, an outbox::Time, an "
                "outbox::JsonValue, a std::optional, std::vector or std::map<std::string, ...> of "
                "these, or a struct with a describe(outbox::Type<...>) of its own");
  static_assert(!NamedEnum<T> || DescribedEnum<T>,
                "an enum with outbox_name() needs a describe(outbox::Type<E>) that returns "
                "outbox::enumeration<E>().value(...), because its names have to be read as well");
}

// --- writing ---

template <class T>
void write_fields(std::string& out, const T& object, const Place& place);

template <class T>
void write_value(std::string& out, const T& value, const Place& place) {
  check_field_type<T>();
  if constexpr (std::same_as<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (IntegerField<T>) {
    out += std::to_string(value);
  } else if constexpr (std::floating_point<T>) {
    append_number(out, value, place);
  } else if constexpr (std::same_as<T, std::string>) {
    append_text(out, value, place);
  } else if constexpr (std::same_as<T, Time>) {
    append_time(out, value, place);
  } else if constexpr (std::same_as<T, JsonValue>) {
    append_json(out, value, place);
  } else if constexpr (DescribedEnum<T>) {
    for (const auto& known : enum_values<T>()) {
      if (known.value == value) return append_text(out, known.name, place);
    }
    refuse_unnamed(static_cast<std::int64_t>(value), place);
  } else if constexpr (std::is_enum_v<T>) {
    out += std::to_string(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (IsOptionalField<T>::value) {
    if (!value) {
      out += "null";
    } else {
      write_value(out, *value, place);
    }
  } else if constexpr (IsVectorField<T>::value) {
    check_depth(place);
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i != 0) out += ',';
      write_value<typename T::value_type>(out, value[i], Place(place, i));
    }
    out += ']';
  } else if constexpr (IsMapField<T>::value) {
    check_depth(place);
    char before = '{';
    for (const auto& [key, item] : value) {
      out += std::exchange(before, ',');
      const Place inner(place, key);
      append_text(out, key, inner);
      out += ':';
      write_value(out, item, inner);
    }
    out += before == '{' ? "{}" : "}";
  } else if constexpr (DescribedStruct<T>) {
    write_fields(out, value, place);
  }
}

template <class T>
void write_fields(std::string& out, const T& object, const Place& place) {
  check_depth(place);
  char before = '{';
  description_of<T>().parts().template each<Part::field>([&](const auto& field) {
    const auto& value = object.*field.member;
    // With a fallback it is written as null: if it were left out, the fallback would come back.
    if constexpr (IsOptionalField<std::remove_cvref_t<decltype(value)>>::value &&
                  !kHasFallback<decltype(field)>) {
      if (!value) return;
    }
    out += std::exchange(before, ',');
    const Place inner(place, field.name);
    append_text(out, field.name, inner);
    out += ':';
    write_value(out, value, inner);
  });
  out += before == '{' ? "{}" : "}";
}

// --- reading ---

template <class T>
T read_fields(const JsonValue& value, const Place& place);

template <class T>
T read_integer(const JsonValue& value, const Place& place) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(read_signed(value, Limits::min(), Limits::max(), place));
  } else {
    return static_cast<T>(read_unsigned(value, Limits::max(), place));
  }
}

template <class T>
T read_value(const JsonValue& value, const Place& place) {
  check_field_type<T>();
  if constexpr (std::same_as<T, bool>) {
    return read_bool(value, place);
  } else if constexpr (IntegerField<T>) {
    return read_integer<T>(value, place);
  } else if constexpr (std::same_as<T, double>) {
    return read_double(value, place);
  } else if constexpr (std::same_as<T, float>) {
    return read_float(value, place);
  } else if constexpr (std::same_as<T, std::string>) {
    return read_text(value, place);
  } else if constexpr (std::same_as<T, Time>) {
    return read_time(value, place);
  } else if constexpr (std::same_as<T, JsonValue>) {
    return value;
  } else if constexpr (DescribedEnum<T>) {
    const std::string& name = read_text(value, place);
    std::vector<std::string_view> names;
    for (const auto& known : enum_values<T>()) {
      if (known.name == name) return known.value;
      names.push_back(known.name);
    }
    refuse_name(names, place);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(read_integer<std::underlying_type_t<T>>(value, place));
  } else if constexpr (IsOptionalField<T>::value) {
    if (value.is_null()) return std::nullopt;
    return read_value<typename T::value_type>(value, place);
  } else if constexpr (IsVectorField<T>::value) {
    T all;
    for (const JsonValue& item : read_array(value, place)) {
      all.push_back(read_value<typename T::value_type>(item, Place(place, all.size())));
    }
    return all;
  } else if constexpr (IsMapField<T>::value) {
    T all;
    for (const auto& [key, item] : read_object(value, place)) {
      all.emplace(key, read_value<typename T::mapped_type>(item, Place(place, key)));
    }
    return all;
  } else if constexpr (DescribedStruct<T>) {
    return read_fields<T>(value, place);
  } else {
    return T();  // has been refused above
  }
}

template <class T>
T read_fields(const JsonValue& value, const Place& place) {
  static_assert(std::default_initializable<T>,
                "a struct that is read by its fields needs a default constructor; without one use "
                ".payload(encode, decode)");
  read_object(value, place);
  T object{};
  description_of<T>().parts().template each<Part::field>([&](const auto& field) {
    using Field = std::remove_cvref_t<decltype(object.*field.member)>;
    const Place inner(place, field.name);
    if (const JsonValue* found = value.find(field.name)) {
      object.*field.member = read_value<Field>(*found, inner);
    } else if constexpr (kHasFallback<decltype(field)>) {
      object.*field.member = static_cast<Field>(field.fallback);
    } else if constexpr (IsOptionalField<Field>::value) {
      object.*field.member = std::nullopt;
    } else {
      refuse_missing(wanted_for<Field>(), inner);
    }
  });
  return object;
}

}  // namespace outbox::typed
