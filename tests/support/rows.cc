#include "support/rows.h"

#include <cstdint>
#include <random>
#include <stdexcept>

namespace outbox::test {

std::string only_value(const std::vector<Row>& rows, const std::string& statements) {
  if (rows.size() != 1 || rows[0].size() != 1 || !rows[0][0]) {
    throw std::runtime_error("not one value, but " + std::to_string(rows.size()) +
                             " rows of several values or NULL: " + statements);
  }
  return *rows[0][0];
}

std::string fresh_name() {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  return "test_" + std::to_string(number);
}

}  // namespace outbox::test
