// How the library speaks to an operator.
#pragma once

#include <functional>
#include <string_view>

#include "outbox/export.h"

namespace outbox {

enum class LogLevel { debug, info, warning, error };

OUTBOX_EXPORT std::string_view to_string(LogLevel level);

// Called from any thread; must be thread-safe, must not throw, and must not call
// the object that it logs for. Payloads, header values and secrets are never
// passed to it.
using Logger = std::function<void(LogLevel level, std::string_view message)>;

// Writes warnings and errors to standard error, a line each with a UTC time.
OUTBOX_EXPORT Logger standard_error_log(LogLevel least = LogLevel::warning);

}  // namespace outbox
