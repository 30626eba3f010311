// JSON for programs: one object a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/clock.h"

namespace outbox::cli {

// A JSON string, in quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

std::string base64(std::string_view bytes);

// An object, its members in the order in which they were added. Not
// thread-safe.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view value);
  JsonObject& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, int value) { return add(key, std::int64_t{value}); }
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, const JsonObject& value);
  JsonObject& add(std::string_view key, const std::vector<JsonObject>& values);
  JsonObject& add(std::string_view key, const std::vector<int>& values);

  // As "2026-03-01T12:00:00.000000Z"; null if absent.
  JsonObject& add(std::string_view key, Time value);
  JsonObject& add(std::string_view key, const std::optional<Time>& value);
  JsonObject& add(std::string_view key, const std::optional<std::int64_t>& value);

  // Null instead of an empty text: the database holds no value.
  JsonObject& add_or_null(std::string_view key, std::string_view value);

  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& add_raw(std::string_view key, std::string_view json);

  std::string members_;
};

}  // namespace outbox::cli
