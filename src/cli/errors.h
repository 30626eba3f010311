// What a command throws besides the library's errors, and what every error
// means for the exit code.
#pragma once

#include <exception>
#include <stdexcept>

#include "cli/exit_codes.h"
#include "outbox/error.h"

namespace outbox::cli {

// The command line makes no sense, which only showed after it was read.
class UsageError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The store that it was pointed at cannot be used as it is.
class ConfigurationError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return kUsage;
  if (dynamic_cast<const ConfigurationError*>(&error) != nullptr) return kConfiguration;
  if (dynamic_cast<const RetryableError*>(&error) != nullptr) return kUnavailable;
  if (dynamic_cast<const PermanentError*>(&error) != nullptr) return kConfiguration;
  if (dynamic_cast<const MisuseError*>(&error) != nullptr) return kConfiguration;
  return kFailed;
}

}  // namespace outbox::cli
