#include "client/postgres/user_values.h"

#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "base/sql_text.h"
#include "client/postgres/libpq.h"
#include "client/postgres/oids.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

constexpr int kText = 0;
constexpr int kBinary = 1;

// With the NUL behind it.
constexpr std::size_t kLongestNumber = 32;

template <class T>
T number(std::string_view text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Blob unescaped(const char* text) {
  std::size_t size = 0;
  const std::unique_ptr<unsigned char, Destroyer<PQfreemem>> bytes(
      PQunescapeBytea(reinterpret_cast<const unsigned char*>(text), &size));
  return Blob{std::string(reinterpret_cast<const char*>(bytes.get()), size)};
}

}  // namespace

UserValues::UserValues(std::span<const Parameter> values) {
  std::size_t bytes = 0;
  for (const Parameter& value : values) {
    const auto* text = std::get_if<std::string_view>(&value.held());
    bytes += text == nullptr ? kLongestNumber : text->size() + 1;
  }
  texts_.reserve(bytes);
  types_.reserve(values.size());
  formats_.reserve(values.size());
  pointers_.reserve(values.size());
  lengths_.reserve(values.size());
  for (const Parameter& value : values) {
    std::visit([this](const auto& held) { add(held); }, value.held());
  }
}

void UserValues::add(std::nullptr_t) { push(nullptr, 0, 0, kText); }

void UserValues::add(std::int64_t value) {
  char text[kLongestNumber];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  add_text({text, static_cast<std::size_t>(end - text)});
}

void UserValues::add(double value) {
  char text[kLongestNumber];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  add_text({text, static_cast<std::size_t>(end - text)});
}

void UserValues::add(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    throw MisuseError(
        "a text value has a NUL character, which PostgreSQL cannot store in a "
        "text; pass it as outbox::Blob");
  }
  add_text(text);
}

void UserValues::add(Parameter::Bytes bytes) {
  const std::string_view data = as_text(bytes);
  push(data.data(), data.size(), oid::kBytea, kBinary);
}

void UserValues::add_text(std::string_view text) {
  const std::size_t at = texts_.size();
  texts_.append(text).push_back('\0');
  push(texts_.data() + at, text.size(), 0, kText);
}

void UserValues::push(const char* data, std::size_t size, Oid type, int format) {
  pointers_.push_back(data);
  lengths_.push_back(static_cast<int>(size));
  types_.push_back(type);
  formats_.push_back(format);
}

Value value_of(const PGresult* result, int row, int column) {
  if (PQgetisnull(result, row, column) != 0) return nullptr;
  const char* data = PQgetvalue(result, row, column);
  const std::string_view text(data, static_cast<std::size_t>(PQgetlength(result, row, column)));
  switch (PQftype(result, column)) {
    case oid::kBool:
      return std::int64_t{text == "t"};
    case oid::kInt2:
    case oid::kInt4:
    case oid::kInt8:
      return number<std::int64_t>(text);
    case oid::kFloat4:
    case oid::kFloat8:
      return number<double>(text);
    case oid::kBytea:
      return unescaped(data);
    default:
      return std::string(text);
  }
}

}  // namespace outbox::postgres
