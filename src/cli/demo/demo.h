// `outbox demo`: a shop, its outbox and a receiver, with faults at the touch of
// a key, and a verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace outbox::demo {

struct DemoOptions {
  // Given, or without a terminal: runs so long unattended, and does the faults
  // itself.
  std::optional<std::chrono::seconds> duration{};

  std::string database{};  // a file that does not exist yet; empty: a temporary one
  std::uint64_t seed = 1;
  int rate = 200;  // orders a second

  bool forget_one = false;  // see ReceiverOptions
};

// Returns whether all promises were kept. Throws PermanentError for a place
// that cannot be used, RetryableError if the system lacks something.
bool run_demo(const DemoOptions& options);

}  // namespace outbox::demo
