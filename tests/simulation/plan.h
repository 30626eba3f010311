// What is drawn once, for a whole history; and what has gone wrong before, as searches: each fault
// that was found has one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "simulation/choices.h"
#include "simulation/scheduler.h"

namespace outbox::simulation {

struct Scenario;

// What may happen to a process, or to the server.
enum class Disaster : std::uint8_t { kill, outage, freeze, clock, stop, failover, join };

// What may happen to a call of the store: before the server hears of it, or to its answer.
enum class RequestFault : std::uint8_t { lost, slow, silent, deadlock };
enum class AnswerFault : std::uint8_t { lost, slow };

// What a listener may do instead of taking an event.
enum class Failure : std::uint8_t { failed, deferred, unavailable, permanent, hang };

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

  // One in so many, 0: never; and which of them, where it is not any.
  std::uint32_t network_faults = 0;  // calls
  std::vector<RequestFault> request_faults{RequestFault::lost, RequestFault::slow,
                                           RequestFault::silent, RequestFault::deadlock};
  std::vector<AnswerFault> answer_faults{AnswerFault::lost, AnswerFault::slow};
  std::vector<std::string_view> faulty_calls{};  // empty: all
  std::uint32_t failures = 0;                    // deliveries
  std::vector<Failure> failure_kinds{Failure::failed, Failure::deferred, Failure::unavailable,
                                     Failure::permanent, Failure::hang};

  std::vector<Disaster> disasters{};  // in this order
  int crashes = 0;                    // deliveries that end their process, at most
  bool delayed_events = false;
  bool operators = false;   // who replay, discard, purge and edit in the middle
  bool only_edits = false;  // all that they do, and often

  // Without a scenario, every other history has one all the same: what has gone wrong before is
  // looked at more closely than all else.
  static Plan draw(Choices& choices, const Scenario* scenario);
  std::string describe() const;
};

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
