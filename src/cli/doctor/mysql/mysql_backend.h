// MariaDB and MySQL, for the command line: the database, and what `outbox doctor` looks at in it.
// Here is what its settings mean for an outbox, which can be told without a server.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/backend.h"

namespace outbox::cli {

// Those of SHOW GLOBAL VARIABLES, by their names.
class MysqlSettings {
 public:
  MysqlSettings() = default;
  explicit MysqlSettings(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // Empty if the server does not know it: not all servers have all of them.
  std::string text(const std::string& name) const;
  std::int64_t number(const std::string& name, std::int64_t if_unknown) const;
  bool is_on(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
};

// Whether the server takes writes, whether its binary log takes those of the engine, what
// a crash of it can cost, whether the largest events fit, what sessions begin with, and
// whether the numbers of rows keep the order. Reads the settings when the checks are made.
std::vector<Check> settings_checks(const MysqlSettings& settings, const MysqlLimits& limits = {});

}  // namespace outbox::cli
