#include "cli/output/json.h"

#include <algorithm>

#include "base/json.h"
#include "base/quote.h"
#include "base/time_text.h"
#include "base/utf8.h"

namespace outbox::cli {
namespace {

// "[a,b]" of values that are JSON already.
template <class Values, class ToText>
std::string json_array(const Values& values, ToText to_text) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ',';
    text += to_text(value);
  }
  return text + "]";
}

// What is valid in JSON but may command a terminal, on which it may end. All of it has four
// hexadecimal digits.
std::string for_terminals(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const std::string_view character =
        json.substr(0, std::max<std::size_t>(utf8_sequence(json), 1));
    if (needs_escape(character)) {
      out += unicode_escape(character);
    } else {
      out += character;
    }
    json.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return for_terminals(out);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    const auto byte = [&](std::size_t n) -> std::uint32_t {
      return n < group.size() ? static_cast<unsigned char>(group[n]) : 0U;
    };
    const std::uint32_t bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kDigits[bits >> 18];
    out += kDigits[bits >> 12 & 63];
    out += group.size() > 1 ? kDigits[bits >> 6 & 63] : '=';
    out += group.size() > 2 ? kDigits[bits & 63] : '=';
  }
  return out;
}

JsonObject& JsonObject::add_raw(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_.append(json_string(key)).append(":").append(json);
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  return add_raw(key, json_string(value));
}

JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return add_raw(key, std::to_string(value));
}

JsonObject& JsonObject::add(std::string_view key, bool value) {
  return add_raw(key, value ? "true" : "false");
}

JsonObject& JsonObject::add(std::string_view key, const JsonObject& value) {
  return add_raw(key, value.text());
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<JsonObject>& values) {
  return add_raw(key, json_array(values, [](const JsonObject& value) { return value.text(); }));
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<int>& values) {
  return add_raw(key, json_array(values, [](int value) { return std::to_string(value); }));
}

JsonObject& JsonObject::add(std::string_view key, Time value) {
  return add(key, std::string_view(time_text(value)));
}

JsonObject& JsonObject::add(std::string_view key, const std::optional<Time>& value) {
  return value ? add(key, *value) : add_raw(key, "null");
}

JsonObject& JsonObject::add(std::string_view key, const std::optional<std::int64_t>& value) {
  return value ? add(key, *value) : add_raw(key, "null");
}

JsonObject& JsonObject::add_or_null(std::string_view key, std::string_view value) {
  return value.empty() ? add_raw(key, "null") : add(key, value);
}

}  // namespace outbox::cli
