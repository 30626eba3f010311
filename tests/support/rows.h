// What the helpers for the databases have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace outbox::test {

using Row = std::vector<std::optional<std::string>>;  // nullopt is NULL

// The only value of the only row; throws std::runtime_error, which names the
// statements, if the rows are anything else, or the value is NULL.
inline std::string only_value(const std::vector<Row>& rows, const std::string& statements) {
  if (rows.size() != 1 || rows[0].size() != 1 || !rows[0][0]) {
    throw std::runtime_error("not one value, but " + std::to_string(rows.size()) +
                             " rows of several values or NULL: " + statements);
  }
  return *rows[0][0];
}

// A name that nothing on the server has yet: tests run side by side, and share it.
inline std::string fresh_name() {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  return "test_" + std::to_string(number);
}

// Statements that make all times in a store's tables earlier: nobody can move a server's clock. One
// for the events, one for the instances. An engine knows a row by what it waits for, so rows that
// are due, which may be in flight, can be left to wait for what they do.
struct MadeEarlier {
  std::string events;
  std::string instances;
};

}  // namespace outbox::test
