#include "outbox/typed/json_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/json.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using Kind = JsonValue::Kind;

[[noreturn]] void refuse(const std::string& what, std::size_t offset) {
  throw PermanentError("not a JSON value that can be used: " + what + " at byte " +
                       std::to_string(offset));
}

// Neither values nor texts appear in messages: they may be secrets. Keys do.
[[noreturn]] void wanted(std::string_view what, const JsonValue& found) {
  throw PermanentError("found " + std::string(describe_kind(found.kind())) + ", wanted " +
                       std::string(what));
}

// A key that is there twice, and where it is so the second time.
struct Place {
  std::string_view key;
  std::size_t offset;
};

const Place* find_repeated(std::vector<Place>& places) {
  const auto before = [](const Place& a, const Place& b) {
    return a.key != b.key ? a.key < b.key : a.offset < b.offset;
  };
  const auto same = [](const Place& a, const Place& b) { return a.key == b.key; };
  std::sort(places.begin(), places.end(), before);
  const auto found = std::adjacent_find(places.begin(), places.end(), same);
  return found == places.end() ? nullptr : &*(found + 1);
}

// Reads a text that has passed check_json(). Recurses, which the limit of the depth makes
// harmless.
class Reader {
 public:
  explicit Reader(std::string_view text) : scanner_(text) {}

  JsonValue read() { return value(0); }

 private:
  JsonValue value(std::size_t depth) {
    switch (scanner_.next()) {
      case '{':
        return object(deeper(depth));
      case '[':
        return array(deeper(depth));
      case '"':
        return string();
      case 't':
        scanner_.read_word();
        return true;
      case 'f':
        scanner_.read_word();
        return false;
      case 'n':
        scanner_.read_word();
        return nullptr;
      default:
        return JsonValue::number(std::string(scanner_.read_word()));
    }
  }

  std::size_t deeper(std::size_t depth) const {
    if (depth == kMaxJsonDepth) {
      refuse("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels",
             scanner_.position());
    }
    return depth + 1;
  }

  JsonValue object(std::size_t depth) {
    std::vector<JsonValue::Member> members;
    std::vector<std::size_t> offsets;
    for (scanner_.skip_bracket(); scanner_.next() != '}';) {
      offsets.push_back(scanner_.position());
      std::string key = string();
      members.push_back({.key = std::move(key), .value = value(depth)});
    }
    scanner_.skip_bracket();
    // All at once at the end, so that many keys take no more than sorting them does.
    std::vector<Place> places;
    places.reserve(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      places.push_back({members[i].key, offsets[i]});
    }
    if (const Place* repeated = find_repeated(places)) {
      refuse("duplicate key " + quote(repeated->key), repeated->offset);
    }
    return JsonValue::object(std::move(members));
  }

  JsonValue array(std::size_t depth) {
    std::vector<JsonValue> items;
    for (scanner_.skip_bracket(); scanner_.next() != ']';) items.push_back(value(depth));
    scanner_.skip_bracket();
    return JsonValue::array(std::move(items));
  }

  std::string string() {
    std::string out;
    if (const std::optional<JsonFault> fault = scanner_.read_string(out)) {
      refuse(std::string(fault->what), fault->offset);
    }
    return out;
  }

  JsonScanner scanner_;
};

void append_string(std::string& out, std::string_view text) {
  if (const std::size_t bad = valid_utf8_prefix(text); bad < text.size()) {
    throw MisuseError("a string of a JSON value must be UTF-8, which it is not at byte " +
                      std::to_string(bad) + " of the string");
  }
  append_json_string(out, text);
}

void append(std::string& out, const JsonValue& value, std::size_t depth = 0) {
  const bool contains = value.kind() == Kind::array || value.kind() == Kind::object;
  if (contains && depth >= kMaxJsonDepth) {
    throw MisuseError("a JSON value is nested deeper than " + std::to_string(kMaxJsonDepth) +
                      " levels, which nobody could read again");
  }
  switch (value.kind()) {
    case Kind::null:
      out += "null";
      return;
    case Kind::boolean:
      out += value.as_bool() ? "true" : "false";
      return;
    case Kind::number:
      out += value.as_number();
      return;
    case Kind::string:
      append_string(out, value.as_string());
      return;
    case Kind::array: {
      char before = '[';
      for (const JsonValue& item : value.items()) {
        out += std::exchange(before, ',');
        append(out, item, depth + 1);
      }
      out += before == '[' ? "[]" : "]";
      return;
    }
    case Kind::object: {
      char before = '{';
      for (const JsonValue::Member& member : value.members()) {
        out += std::exchange(before, ',');
        append_string(out, member.key);
        out += ':';
        append(out, member.value, depth + 1);
      }
      out += before == '{' ? "{}" : "}";
      return;
    }
  }
}

}  // namespace

std::string_view describe_kind(JsonValue::Kind kind) {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "a boolean";
    case Kind::number:
      return "a number";
    case Kind::string:
      return "a string";
    case Kind::array:
      return "an array";
    case Kind::object:
      return "an object";
  }
  return "an unknown value";
}

JsonValue::JsonValue() = default;
JsonValue::JsonValue(std::nullptr_t) {}
JsonValue::JsonValue(std::string text) : data_(std::move(text)) {}
JsonValue::JsonValue(std::string_view text) : data_(std::string(text)) {}
JsonValue::JsonValue(const char* text) : data_(std::string(text)) {}
JsonValue::JsonValue(Boolean value) : data_(value) {}
JsonValue::JsonValue(Number value) : data_(std::move(value)) {}
JsonValue::JsonValue(const JsonValue& other) = default;
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue::~JsonValue() = default;

// What is assigned may be a part of this value, and must outlive what it replaces.
JsonValue& JsonValue::operator=(const JsonValue& other) { return *this = JsonValue(other); }

JsonValue& JsonValue::operator=(JsonValue&& other) noexcept {
  JsonValue taken(std::move(other));
  data_.swap(taken.data_);
  return *this;
}

JsonValue::JsonValue(double value) {
  if (!std::isfinite(value)) {
    throw MisuseError("a JSON number must be finite, which " + std::to_string(value) + " is not");
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  data_ = Number{std::string(text.data(), end)};
}

JsonValue JsonValue::array() { return array({}); }

JsonValue JsonValue::array(std::vector<JsonValue> items) {
  JsonValue made;
  made.data_ = std::move(items);
  return made;
}

JsonValue JsonValue::object() { return object({}); }

JsonValue JsonValue::object(std::vector<Member> members) {
  std::vector<Place> places;
  places.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) places.push_back({members[i].key, i});
  if (const Place* repeated = find_repeated(places)) {
    throw MisuseError("a JSON object has the key " + quote(repeated->key) +
                      " twice, keys must differ");
  }
  JsonValue made;
  made.data_ = std::move(members);
  return made;
}

JsonValue JsonValue::number(std::string text) {
  const bool digit_first = !text.empty() && (text[0] == '-' || ('0' <= text[0] && text[0] <= '9'));
  if (!digit_first || text.find_first_of(" \t\r\n") != text.npos || check_json(text)) {
    throw MisuseError("not a number as JSON writes it: " + quote(text));
  }
  JsonValue made;
  made.data_ = Number{std::move(text)};
  return made;
}

JsonValue JsonValue::parse(std::string_view text) {
  if (const std::optional<JsonFault> fault = check_json(text)) {
    refuse(std::string(fault->what), fault->offset);
  }
  return Reader(text).read();
}

std::string JsonValue::dump() const {
  std::string out;
  append(out, *this);
  return out;
}

bool JsonValue::as_bool() const {
  if (const auto* boolean = std::get_if<Boolean>(&data_)) return boolean->value;
  wanted("a boolean", *this);
}

std::int64_t JsonValue::as_int() const {
  const auto* number = std::get_if<Number>(&data_);
  if (number == nullptr) wanted("an integer", *this);
  const char* end = number->text.data() + number->text.size();
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(number->text.data(), end, value);
  if (error != std::errc{} || rest != end) {
    throw PermanentError(
        "found a number that is not a 64-bit integer, wanted one without fraction and exponent");
  }
  return value;
}

double JsonValue::as_double() const {
  const auto* number = std::get_if<Number>(&data_);
  if (number == nullptr) wanted("a number", *this);
  double value = 0;
  const char* end = number->text.data() + number->text.size();
  if (std::from_chars(number->text.data(), end, value).ec != std::errc{}) {
    throw PermanentError("found a number that no double can hold");
  }
  return value;
}

const std::string& JsonValue::as_string() const {
  if (const auto* value = std::get_if<std::string>(&data_)) return *value;
  wanted("a string", *this);
}

const std::string& JsonValue::as_number() const {
  if (const auto* value = std::get_if<Number>(&data_)) return value->text;
  wanted("a number", *this);
}

// --- arrays ---

const std::vector<JsonValue>& JsonValue::items() const {
  if (const auto* items = std::get_if<std::vector<JsonValue>>(&data_)) return *items;
  wanted("an array", *this);
}

std::vector<JsonValue>& JsonValue::own_items() {
  return const_cast<std::vector<JsonValue>&>(std::as_const(*this).items());
}

const JsonValue& JsonValue::at(std::size_t index) const {
  const std::vector<JsonValue>& all = items();
  if (index < all.size()) return all[index];
  throw PermanentError("found an array of " + std::to_string(all.size()) + " items, wanted item " +
                       std::to_string(index));
}

JsonValue& JsonValue::at(std::size_t index) {
  return const_cast<JsonValue&>(std::as_const(*this).at(index));
}

JsonValue& JsonValue::push(JsonValue item) {
  own_items().push_back(std::move(item));
  return *this;
}

// --- objects ---

const std::vector<JsonValue::Member>& JsonValue::members() const {
  if (const auto* members = std::get_if<std::vector<Member>>(&data_)) return *members;
  wanted("an object", *this);
}

std::vector<JsonValue::Member>& JsonValue::own_members() {
  return const_cast<std::vector<Member>&>(std::as_const(*this).members());
}

const JsonValue* JsonValue::find(std::string_view key) const noexcept {
  const auto* members = std::get_if<std::vector<Member>>(&data_);
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(),
                                  [key](const Member& member) { return member.key == key; });
  return found == members->end() ? nullptr : &found->value;
}

JsonValue* JsonValue::find(std::string_view key) noexcept {
  return const_cast<JsonValue*>(std::as_const(*this).find(key));
}

const JsonValue& JsonValue::at(std::string_view key) const {
  if (kind() != Kind::object) wanted("an object with the key " + quote(key), *this);
  if (const JsonValue* value = find(key)) return *value;
  throw PermanentError("found an object without the key " + quote(key));
}

JsonValue& JsonValue::at(std::string_view key) {
  return const_cast<JsonValue&>(std::as_const(*this).at(key));
}

JsonValue& JsonValue::set(std::string_view key, JsonValue value) {
  std::vector<Member>& members = own_members();
  if (JsonValue* old = find(key)) {
    *old = std::move(value);
  } else {
    members.push_back({.key = std::string(key), .value = std::move(value)});
  }
  return *this;
}

bool JsonValue::erase(std::string_view key) { return take(key).has_value(); }

std::optional<JsonValue> JsonValue::take(std::string_view key) {
  std::vector<Member>& members = own_members();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [key](const Member& member) { return member.key == key; });
  if (found == members.end()) return std::nullopt;
  JsonValue value = std::move(found->value);
  members.erase(found);
  return value;
}

bool JsonValue::operator==(const JsonValue& other) const { return data_ == other.data_; }

}  // namespace outbox
