// The three processes of the demo besides the one that shows it. Each is the
// outbox binary itself, started with a hidden command; it tells what it does on
// standard output (messages.h) and ends on SIGTERM.
#pragma once

#include <cstdint>
#include <string>

#include "cli/demo/shop.h"

namespace outbox::demo {

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
