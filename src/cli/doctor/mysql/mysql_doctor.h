// What `outbox doctor` looks at in a MariaDB or MySQL server, and what its settings mean for an
// outbox.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/backend.h"

namespace outbox::cli {

// From where on something is worth a warning.
struct MysqlLimits {
  // How many connections a process with an engine opens at most, by default.
  std::int64_t free_connections = 17;

  // Two payloads of 1 MiB in one statement, each written as text of twice its size, and
  // what goes with them.
  std::int64_t packet = 5 << 20;

  std::chrono::seconds idle{60};  // how long a connection may be idle at least
  std::chrono::seconds old_transaction{300};
  std::int64_t old_versions = 1'000'000;
};

// Those of SHOW GLOBAL VARIABLES, by their names.
class MysqlSettings {
 public:
  explicit MysqlSettings(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // Empty if the server does not know it: not all servers have all of them.
  std::string text(const std::string& name) const;
  std::int64_t number(const std::string& name, std::int64_t if_unknown) const;
  bool is_on(const std::string& name) const;

 private:
  const std::map<std::string, std::string> values_;
};

// Whether the server takes writes, whether its binary log takes those of the engine, what
// a crash of it can cost, whether the largest events fit, what sessions begin with, and
// whether the numbers of rows keep the order.
std::vector<Finding> judge_settings(const MysqlSettings& settings, const MysqlLimits& limits = {});

// Looks at the server and its settings, what the user may do in it, whether the tables are
// as they were made, and what keeps reads from being short. Changes nothing. Ends early
// when what follows would only repeat the same failure.
std::vector<Finding> examine_mysql(const std::string& url, const std::string& table,
                                   const MysqlLimits& limits = {});

}  // namespace outbox::cli
