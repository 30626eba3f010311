// What `outbox doctor` looks at in a PostgreSQL server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/doctor/backend.h"

namespace outbox::cli {

// From where on something is worth a warning.
struct PostgresLimits {
  // How many connections a process with an engine opens at most, by default.
  std::int64_t free_connections = 18;

  std::int64_t dead_rows = 50'000;  // and a tenth of the living
  std::chrono::seconds old_transaction{300};
};

// Looks at the server, what the role may do in it, and what keeps the table from
// staying small and its reads from being short. Changes nothing. Ends early when
// what follows would only repeat the same failure.
std::vector<Finding> examine_postgres(const std::string& url, const std::string& table,
                                      const PostgresLimits& limits = {});

}  // namespace outbox::cli
