// Log records, and where they go.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <variant>

#include "outbox/export.h"

namespace outbox {

enum class LogLevel { debug, info, warning, error };

OUTBOX_EXPORT std::string_view to_string(LogLevel level);

// A value that belongs to a record, under a name such as "event", "listener" or "epoch".
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, double, bool>;

  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  template <class T>
  requires std::same_as<T, bool> || std::integral<T> || std::floating_point<T> LogField(
      std::string_view field, T number)
      : name(field) {
    if constexpr (std::same_as<T, bool>) {
      value = number;
    } else if constexpr (std::integral<T>) {
      value = static_cast<std::int64_t>(number);
    } else {
      value = static_cast<double>(number);
    }
  }

  std::string_view name;
  Value value;
};

// One event in the log. Valid only during the call of the logger.
struct LogRecord {
  LogRecord(LogLevel how, std::string_view what, std::string_view text,
            std::initializer_list<LogField> values = {})
      : level(how), code(what), message(text), fields(values.begin(), values.size()) {}

  LogLevel level;

  // What happened, as a stable code such as "lease_lost": to alert on and to count.
  // docs/operations.md lists them.
  std::string_view code;

  // The same for people, in one sentence, with the fields' values. The wording may change in
  // the next release.
  std::string_view message;

  // The values in the message.
  std::span<const LogField> fields;
};

// Called from any thread; must be thread-safe, must not throw, and must not call
// the object that it logs for. It never gets payloads, header values or secrets.
//
//   options.log = [](const outbox::LogRecord& record) {
//     spdlog::log(level_of(record.level), "[{}] {}", record.code, record.message);
//   };
using Logger = std::function<void(const LogRecord& record)>;

// Writes warnings and errors to standard error, one line each with a UTC time.
OUTBOX_EXPORT Logger standard_error_log(LogLevel least = LogLevel::warning);

}  // namespace outbox
