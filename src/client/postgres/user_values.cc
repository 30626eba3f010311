#include "client/postgres/user_values.h"

#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "client/postgres/libpq.h"
#include "client/postgres/oids.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

constexpr int kText = 0;
constexpr int kBinary = 1;

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

UserValues::UserValues(std::span<const Value> values) {
  texts_.reserve(values.size());
  for (const Value& value : values) std::visit([this](const auto& held) { add(held); }, value);
  for (const std::string& text : texts_) {
    pointers_.push_back(nulls_[pointers_.size()] ? nullptr : text.c_str());
    lengths_.push_back(static_cast<int>(text.size()));
  }
}

void UserValues::add(std::nullptr_t) { push({}, 0, kText, true); }
void UserValues::add(std::int64_t value) { push(std::to_string(value), 0, kText); }
void UserValues::add(const Blob& blob) { push(blob.data, oid::kBytea, kBinary); }

void UserValues::add(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  push(std::string(text, end), 0, kText);
}

void UserValues::add(const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    throw MisuseError(
        "a text value has a NUL character, which PostgreSQL cannot store in a "
        "text; pass it as outbox::Blob");
  }
  push(text, 0, kText);
}

void UserValues::push(std::string text, Oid type, int format, bool is_null) {
  texts_.push_back(std::move(text));
  types_.push_back(type);
  formats_.push_back(format);
  nulls_.push_back(is_null);
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
