// What is drawn once, for a whole history.
#pragma once

#include <cstdint>
#include <string>

#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "simulation/choices.h"
#include "simulation/scheduler.h"

namespace outbox::simulation {

struct Plan {
  enum class Receiver : std::uint8_t { listener, batch, fan_out };

  Scheduler::Policy policy{};
  int processes = 1;
  int writers = 1;
  int transactions = 1;  // of each writer
  int aggregates = 1;
  Receiver receiver = Receiver::listener;
  Options options{};
  memory::Options server{};

  // One in so many, 0: never.
  std::uint32_t network_faults = 0;  // calls
  std::uint32_t failures = 0;        // deliveries
  int disasters = 0;                 // kills, freezes, outages, failovers, clocks
  int crashes = 0;                   // deliveries that end their process, at most
  bool delayed_events = false;
  bool operators = false;  // who replay, discard and purge in the middle

  static Plan draw(Choices& choices);
  std::string describe() const;
};

}  // namespace outbox::simulation
