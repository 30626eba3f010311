// The three processes of the demo besides the one that shows it. Each is the
// outbox binary itself, started with a hidden command; it tells what it does on
// standard output (report.h) and ends on SIGTERM.
#pragma once

#include <cstdint>
#include <string>

#include "cli/demo/workplace.h"

namespace outbox::demo {

struct WriterRole {
  Workplace workplace{};
  std::uint64_t seed = 1;
  int rate = 200;  // orders a second
};

struct DispatcherRole {
  Workplace workplace{};
};

struct ReceiverRole {
  Workplace workplace{};

  // Acknowledge one order without writing it down, so that a test can see the
  // verdict find it out.
  bool forget_one = false;
};

// Commit orders and roll some back.
void run(const WriterRole& role);

// Deliver the events to the receiver.
void run(const DispatcherRole& role);

// Write down what arrives.
void run(const ReceiverRole& role);

}  // namespace outbox::demo
