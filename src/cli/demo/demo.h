// `outbox demo`: a shop, its outbox and a receiver, with faults at the touch of
// a key, and a verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/demo/shop.h"

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

// --- The other processes ---
//
// Each is the outbox binary itself, started with a hidden command; it tells what it does on
// standard output (report.h) and ends on SIGTERM.

struct WriterOptions {
  RunDirectory directory{};
  std::uint64_t seed = 1;
  int rate = 200;  // orders a second
};

struct DispatcherOptions {
  RunDirectory directory{};
};

struct ReceiverOptions {
  RunDirectory directory{};

  // Acknowledge one order without writing it down, so that a test can see the
  // verdict find it out.
  bool forget_one = false;
};

// Commit orders and roll some back.
void run(const WriterOptions& options);

// Deliver the events to the receiver.
void run(const DispatcherOptions& options);

// Write down what arrives.
void run(const ReceiverOptions& options);

}  // namespace outbox::demo
