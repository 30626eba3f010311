#include "outbox/typed/json_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/json.h"
#include "base/quote.h"
#include "base/time_text.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox::typed {
namespace {

// Neither values nor texts appear in messages: they may be secrets.
[[noreturn]] void refuse(std::string_view found, std::string_view wanted, const Place& place) {
  throw PermanentError(place.text() + ": found " + std::string(found) + ", wanted " +
                       std::string(wanted));
}

void check_kind(const JsonValue& value, JsonValue::Kind kind, std::string_view wanted,
                const Place& place) {
  if (value.kind() != kind) refuse(describe_kind(value.kind()), wanted, place);
}

// The whole text as a number, or nothing.
template <class T>
std::optional<T> number_of(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

template <class T>
T read_integer_between(const JsonValue& value, T min, T max, const Place& place) {
  check_kind(value, JsonValue::Kind::number, "an integer", place);
  const std::string& text = value.as_number();
  if (text.find_first_of(".eE") != text.npos) {
    refuse("a number with a fraction or an exponent", "an integer", place);
  }
  // An integer of other programs may be written as -0.
  const std::optional<T> number = text == "-0" ? T{0} : number_of<T>(text);
  if (!number || *number < min || max < *number) {
    refuse("an integer out of range",
           "one from " + std::to_string(min) + " to " + std::to_string(max), place);
  }
  return *number;
}

template <class T>
T read_real(const JsonValue& value, const Place& place) {
  check_kind(value, JsonValue::Kind::number, "a number", place);
  const std::optional<T> number = number_of<T>(value.as_number());
  if (!number) refuse("a number that does not fit", "one of a smaller size", place);
  return *number;
}

template <class T>
void append_real(std::string& out, T value, const Place& place) {
  if (!std::isfinite(value)) {
    throw MisuseError(place.text() + " is " + std::to_string(value) +
                      ", JSON has finite numbers only");
  }
  std::array<char, 32> text{};
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
}

[[noreturn]] void refuse_depth(const Place& place) {
  throw MisuseError(place.text() + " is nested deeper than " + std::to_string(kMaxJsonDepth) +
                    " levels, which nobody could read again");
}

// How many objects and arrays are in each other; a value that can be dumped has few.
std::size_t levels_of(const JsonValue& value) {
  std::size_t inner = 0;
  switch (value.kind()) {
    case JsonValue::Kind::array:
      for (const JsonValue& item : value.items()) inner = std::max(inner, levels_of(item));
      return inner + 1;
    case JsonValue::Kind::object:
      for (const auto& member : value.members()) inner = std::max(inner, levels_of(member.value));
      return inner + 1;
    default:
      return 0;
  }
}

}  // namespace

std::string Place::text() const {
  if (outer_ == nullptr) return std::string(name_);
  std::string text = outer_->text();
  if (index_) return text + '[' + std::to_string(*index_) + ']';
  text += outer_->outer_ == nullptr ? ": " : ".";
  return text + printable(name_);
}

void append_text(std::string& out, std::string_view text, const Place& place) {
  if (const std::size_t bad = valid_utf8_prefix(text); bad < text.size()) {
    throw MisuseError(place.text() + " must be UTF-8, which it is not at byte " +
                      std::to_string(bad) + "; bytes need .payload(encode, decode)");
  }
  append_json_string(out, text);
}

void append_number(std::string& out, double value, const Place& place) {
  append_real(out, value, place);
}

void append_number(std::string& out, float value, const Place& place) {
  append_real(out, value, place);
}

void append_time(std::string& out, Time time, const Place& place) {
  if (time < kEarliestTime || kLatestTime < time) {
    throw MisuseError(place.text() + " is " + time_text(time) +
                      ", only the years 1000 to 9999 are allowed");
  }
  append_json_string(out, time_text(time));
}

void append_json(std::string& out, const JsonValue& value, const Place& place) {
  try {
    out += value.dump();
  } catch (const MisuseError& error) {
    throw MisuseError(place.text() + ": " + error.what());
  }
  if (place.depth() + levels_of(value) > kMaxJsonDepth) refuse_depth(place);
}

void check_depth(const Place& place) {
  if (place.depth() >= kMaxJsonDepth) refuse_depth(place);
}

void refuse_unnamed(std::int64_t value, const Place& place) {
  throw MisuseError(place.text() + " is " + std::to_string(value) +
                    ", which has no name in the description of its enum");
}

bool read_bool(const JsonValue& value, const Place& place) {
  check_kind(value, JsonValue::Kind::boolean, "a boolean", place);
  return value.as_bool();
}

std::int64_t read_signed(const JsonValue& value, std::int64_t min, std::int64_t max,
                         const Place& place) {
  return read_integer_between(value, min, max, place);
}

std::uint64_t read_unsigned(const JsonValue& value, std::uint64_t max, const Place& place) {
  return read_integer_between(value, std::uint64_t{0}, max, place);
}

double read_double(const JsonValue& value, const Place& place) {
  return read_real<double>(value, place);
}

float read_float(const JsonValue& value, const Place& place) {
  return read_real<float>(value, place);
}

const std::string& read_text(const JsonValue& value, const Place& place) {
  check_kind(value, JsonValue::Kind::string, "a string", place);
  return value.as_string();
}

Time read_time(const JsonValue& value, const Place& place) {
  constexpr std::string_view kWanted = "a time such as \"2026-03-01T12:00:00.000000Z\"";
  check_kind(value, JsonValue::Kind::string, kWanted, place);
  const std::optional<Time> time = parse_time(value.as_string());
  if (!time) refuse("a string that is not a time", kWanted, place);
  return *time;
}

const std::vector<JsonValue>& read_array(const JsonValue& value, const Place& place) {
  check_kind(value, JsonValue::Kind::array, "an array", place);
  return value.items();
}

const std::vector<JsonValue::Member>& read_object(const JsonValue& value, const Place& place) {
  check_kind(value, JsonValue::Kind::object, "an object", place);
  return value.members();
}

void refuse_missing(std::string_view wanted, const Place& place) {
  refuse("nothing",
         std::string(wanted) + "; a field that may be missing is optional or has a fallback",
         place);
}

void refuse_name(const std::vector<std::string_view>& names, const Place& place) {
  std::string known;
  for (const std::string_view name : names) known += (known.empty() ? "" : ", ") + quote(name);
  refuse("an unknown name", "one of " + known, place);
}

void check_fields(const std::vector<std::string_view>& names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) throw MisuseError("a description has a field or value without a name");
    if (std::find(names.begin(), name, *name) != name) {
      throw MisuseError("a description has the name " + quote(*name) +
                        " twice, the names must differ");
    }
  }
}

}  // namespace outbox::typed
