#include "cli/stores/schema_check.h"

#include "cli/errors.h"

namespace outbox::cli {
namespace {

std::string versions(const SchemaStatus& status) {
  return "version " + std::to_string(status.present) + ", and this binary needs version " +
         std::to_string(status.latest);
}

}  // namespace

void check_schema(const Backend& backend, const SchemaStatus& status) {
  const std::string how = "; run: outbox migrate up " + backend.arguments();
  if (status.newer()) {
    throw ConfigurationError("the schema of the " + backend.description() + " has " +
                             versions(status) + ": use the outbox that belongs to it");
  }
  if (status.present == 0) {
    const std::string file = backend.missing_file();
    if (!file.empty()) {
      throw ConfigurationError("there is no file " + file +
                               ": check --db, or make a new database with: outbox migrate up " +
                               backend.arguments());
    }
    throw ConfigurationError("there is no outbox in the " + backend.description() + how);
  }
  if (!status.up_to_date()) {
    throw ConfigurationError("the schema of the " + backend.description() + " has " +
                             versions(status) + how);
  }
}

}  // namespace outbox::cli
