// The table of bad inputs.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "outbox/event.h"

namespace outbox::fuzz {

// One line of bad_inputs.tsv.
struct BadInput {
  std::string what{};
  std::string field{};
  std::string value{};
  bool accepted = false;

  // If it is refused, part of the message; otherwise what comes out, where that
  // is not what went in.
  std::string part{};

  int line = 0;
};

inline std::ostream& operator<<(std::ostream& out, const BadInput& input) {
  return out << "bad_inputs.tsv:" << input.line << " (" << input.field << ": " << input.what << ")";
}

// Throws std::runtime_error if the file cannot be read or a line is invalid.
std::vector<BadInput> load_bad_inputs(const std::string& path);

// Whether the input is about a field of an event, and an event with that value.
bool is_event_field(const std::string& field);
Draft draft_with(const BadInput& input);

// What takes the value of every other field but `row.*` and `cli`: throws if it
// refuses it. Returns what came out of it, if that says anything.
using Taker = std::function<std::string(const std::string& value)>;
std::map<std::string, Taker> takers();

}  // namespace outbox::fuzz
