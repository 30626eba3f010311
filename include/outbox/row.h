// Parameters of statements, and rows of results.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "outbox/export.h"

namespace outbox {

// Bytes, as opposed to a std::string, which is text.
struct Blob {
  std::string data{};
  friend bool operator==(const Blob&, const Blob&) = default;
};

// A value in a row; nullptr is NULL.
using Value = std::variant<std::nullptr_t, std::int64_t, double, std::string, Blob>;

namespace internal {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
}  // namespace internal

// The value for one placeholder of a statement: a number, text, bytes (Blob or a span of
// std::byte), nullptr, a Value, or an optional of one of these. Text and bytes are not copied:
// they must outlive the call that takes the Parameter.
class Parameter {
 public:
  using Bytes = std::span<const std::byte>;
  using Held = std::variant<std::nullptr_t, std::int64_t, double, std::string_view, Bytes>;

  template <class T>
  requires(!std::same_as<T, Parameter>)
      Parameter(const T& value)  // NOLINT(google-explicit-constructor): calls read like SQL
      : held_(hold(value)) {}

  const Held& held() const noexcept { return held_; }

 private:
  template <class T>
  static Held hold(const T& value);

  Held held_;
};

// One row of a query's result.
//
//   for (const outbox::ResultRow& row : tx.query("SELECT id, note FROM orders")) {
//     const auto id = row.get<int>("id");
//     const auto note = row.get<std::optional<std::string>>("note");
//   }
//
// get() gives integers, floating-point numbers, bool, std::string, Blob, Value, and optionals of
// them, which are empty for NULL. Numbers are also read from text that holds nothing else: some
// databases return sums and decimals that way. Throws a MisuseError that names the column and the
// value if the column is missing or its value has another type.
//
// Copies share the names of the columns. Immutable, and so thread-safe.
class OUTBOX_EXPORT ResultRow {
 public:
  using Columns = std::vector<std::string>;

  ResultRow(std::shared_ptr<const Columns> columns, std::vector<Value> values);

  std::size_t size() const noexcept { return values_.size(); }

  // By index, counting from 0, or by the column's name in the result.
  template <class T>
  T get(std::size_t column) const;
  template <class T>
  T get(std::string_view column) const {
    return get<T>(index_of(column));
  }

  // The value as the database gave it.
  const Value& at(std::size_t column) const;
  const Value& at(std::string_view column) const { return values_[index_of(column)]; }

  const std::vector<Value>& values() const noexcept { return values_; }
  const Columns& columns() const noexcept { return *columns_; }

 private:
  // Within the limits of a type, which errors call `type`.
  std::int64_t integer(std::size_t column, std::int64_t least, std::int64_t most,
                       const char* type) const;
  std::uint64_t unsigned_integer(std::size_t column) const;
  double real(std::size_t column) const;
  const std::string& text(std::size_t column) const;
  const Blob& blob(std::size_t column) const;
  std::size_t index_of(std::string_view column) const;
  [[noreturn]] void refuse(std::size_t column, const char* wanted) const;

  std::shared_ptr<const Columns> columns_;
  std::vector<Value> values_;
};

// --- implementation of the templates ---

template <class T>
Parameter::Held Parameter::hold(const T& value) {
  if constexpr (std::same_as<T, Value>) {
    return std::visit([](const auto& held) { return hold(held); }, value);
  } else if constexpr (internal::IsOptional<T>::value) {
    return value ? hold(*value) : Held{nullptr};
  } else if constexpr (std::is_null_pointer_v<T>) {
    return nullptr;
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(sizeof(T) < 8 || std::is_signed_v<T>,
                  "databases have no 64-bit unsigned integers: cast to std::int64_t");
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::same_as<T, Blob>) {
    return std::as_bytes(std::span<const char>(value.data));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return std::string_view(value);
  } else {
    static_assert(std::is_convertible_v<const T&, Bytes>,
                  "a statement takes numbers, text, outbox::Blob, spans of std::byte, nullptr, or "
                  "optionals of them");
    return Bytes(value);
  }
}

template <class T>
T ResultRow::get(std::size_t column) const {
  if constexpr (internal::IsOptional<T>::value) {
    if (std::holds_alternative<std::nullptr_t>(at(column))) return std::nullopt;
    return get<typename T::value_type>(column);
  } else if constexpr (std::same_as<T, Value>) {
    return at(column);
  } else if constexpr (std::same_as<T, bool>) {
    return integer(column, 0, 1, "a bool") != 0;
  } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8) {
    return unsigned_integer(column);
  } else if constexpr (std::is_integral_v<T>) {
    constexpr const char* kTypes[] = {"an integer of 8 bits",
                                      "an integer of 16 bits",
                                      "",
                                      "an integer of 32 bits",
                                      "",
                                      "",
                                      "",
                                      "an integer"};
    return static_cast<T>(integer(column, static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                                  static_cast<std::int64_t>(std::numeric_limits<T>::max()),
                                  kTypes[sizeof(T) - 1]));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(real(column));
  } else if constexpr (std::same_as<T, std::string>) {
    return text(column);
  } else {
    static_assert(std::same_as<T, Blob>,
                  "a row gives integers, floating-point numbers, bool, std::string, outbox::Blob, "
                  "outbox::Value, and optionals of them");
    return blob(column);
  }
}

}  // namespace outbox
