// What `outbox doctor` looks at in a MariaDB or MySQL server.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/backend.h"
#include "cli/doctor/mysql/mysql_settings.h"

namespace outbox::cli {

// Looks at the server and its settings, what the user may do in it, whether the tables are
// as they were made, and what keeps reads from being short. Changes nothing. Ends early
// when what follows would only repeat the same failure.
std::vector<Finding> examine_mysql(const std::string& url, const std::string& table,
                                   const MysqlLimits& limits = {});

}  // namespace outbox::cli
