#include "outbox/row.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox {
namespace {

std::string shown(const Value& value) {
  if (std::holds_alternative<std::nullptr_t>(value)) return "NULL";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return std::to_string(*real);
  if (const auto* blob = std::get_if<Blob>(&value)) {
    return std::to_string(blob->data.size()) + " bytes";
  }
  return "the text " + quote(std::get<std::string>(value));
}

// The number that the text is, and nothing else.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || at != end || error != std::errc()) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> number_in(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::nullopt : number<T>(*text);
}

}  // namespace

ResultRow::ResultRow(std::shared_ptr<const Columns> columns, std::vector<Value> values)
    : columns_(std::move(columns)), values_(std::move(values)) {
  if (!columns_ || columns_->size() != values_.size()) {
    throw MisuseError("a row needs a name for each of its " + std::to_string(values_.size()) +
                      " values");
  }
}

const Value& ResultRow::at(std::size_t column) const {
  if (column < values_.size()) return values_[column];
  throw MisuseError("the row has no column " + std::to_string(column) + ": it has " +
                    std::to_string(values_.size()) + ", counted from 0");
}

std::size_t ResultRow::index_of(std::string_view column) const {
  const auto found = std::find(columns_->begin(), columns_->end(), column);
  if (found != columns_->end()) return static_cast<std::size_t>(found - columns_->begin());
  std::string names;
  for (const std::string& name : *columns_) names += (names.empty() ? "" : ", ") + quote(name);
  throw MisuseError("the row has no column " + quote(column) + ": it has " +
                    (names.empty() ? "none" : names));
}

void ResultRow::refuse(std::size_t column, const char* wanted) const {
  const Value& value = at(column);
  const bool is_null = std::holds_alternative<std::nullptr_t>(value);
  throw MisuseError("column " + quote((*columns_)[column]) + " is " + shown(value) + ", not " +
                    wanted + (is_null ? ": ask for a std::optional" : ""));
}

std::int64_t ResultRow::integer(std::size_t column, std::int64_t least, std::int64_t most,
                                const char* type) const {
  const Value& value = at(column);
  const auto* held = std::get_if<std::int64_t>(&value);
  const auto integer = held != nullptr ? std::optional(*held) : number_in<std::int64_t>(value);
  if (!integer || *integer < least || *integer > most) refuse(column, type);
  return *integer;
}

std::uint64_t ResultRow::unsigned_integer(std::size_t column) const {
  const Value& value = at(column);
  if (const auto* held = std::get_if<std::int64_t>(&value); held != nullptr && *held >= 0) {
    return static_cast<std::uint64_t>(*held);
  }
  if (const auto integer = number_in<std::uint64_t>(value)) return *integer;
  refuse(column, "an integer without a sign");
}

double ResultRow::real(std::size_t column) const {
  const Value& value = at(column);
  if (const auto* held = std::get_if<double>(&value)) return *held;
  if (const auto* held = std::get_if<std::int64_t>(&value)) return static_cast<double>(*held);
  if (const auto real = number_in<double>(value)) return *real;
  refuse(column, "a number");
}

const std::string& ResultRow::text(std::size_t column) const {
  if (const auto* held = std::get_if<std::string>(&at(column))) return *held;
  refuse(column, "a text");
}

const Blob& ResultRow::blob(std::size_t column) const {
  if (const auto* held = std::get_if<Blob>(&at(column))) return *held;
  refuse(column, "a Blob");
}

}  // namespace outbox
