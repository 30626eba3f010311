// The exit codes, what a command throws besides the library's errors, and what
// every error means for the exit code.
#pragma once

#include <exception>
#include <stdexcept>

#include "outbox/error.h"

namespace outbox::cli {

// What the binary's exit code tells a script; the numbers are sysexits(3)'s.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;          // it ran, and the answer is bad
inline constexpr int kUsage = 64;          // the command line is invalid
inline constexpr int kUnavailable = 69;    // something that it needs is unavailable; may work later
inline constexpr int kConfiguration = 78;  // what it was pointed at cannot be used

// The command line is invalid, which only showed after it was read.
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
