// One simulated history: processes with engines, a server, faults, and the judge.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "simulation/choices.h"
#include "simulation/plan.h"

namespace outbox::simulation {

struct Figures {
  std::uint64_t steps = 0;       // points at which another thread could have gone on
  std::uint64_t events = 0;      // written
  std::uint64_t deliveries = 0;  // begun
  std::uint64_t faults = 0;
  std::uint64_t seconds = 0;  // of simulated time

  Figures& operator+=(const Figures& other) {
    steps += other.steps;
    events += other.events;
    deliveries += other.deliveries;
    faults += other.faults;
    seconds += other.seconds;
    return *this;
  }
};

// Plays the history that the choices describe, in a scenario unless it is null. `violated` is
// called with what is wrong, and does not return; `trace`, unless it is empty, with each thing that
// happens.
Figures play(Choices& choices, const Scenario* scenario,
             std::function<void(const std::string& what)> violated,
             std::function<void(const std::string& line)> trace);

}  // namespace outbox::simulation
