// What has gone wrong before, as searches: each fault that was found has one.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simulation/choices.h"
#include "simulation/plan.h"

namespace outbox::simulation {

// A seed finds a fault in the code that it was found in. This finds it again when that code has
// been reshaped: it pins down what the fault needs, leaves all else to chance, and plays as many
// histories as it takes.
struct Scenario {
  std::string_view name;
  std::string_view story;  // what went wrong
  void (*pin)(Plan& plan, Choices& choices);
  std::uint64_t budget;  // so many histories would have found it several times over
};

std::span<const Scenario> scenarios();

// Null if there is none of that name.
const Scenario* find_scenario(std::string_view name);

}  // namespace outbox::simulation
