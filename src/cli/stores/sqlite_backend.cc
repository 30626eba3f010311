#include "cli/stores/sqlite_backend.h"

#include <utility>

#include "cli/errors.h"
#include "cli/stores/shell_word.h"
#include "cli/stores/sqlite_examination.h"
#include "outbox/sqlite.h"

namespace outbox::cli {
namespace {

std::string versions(const SchemaStatus& status) {
  return "version " + std::to_string(status.present) + ", and this binary needs version " +
         std::to_string(status.latest);
}

}  // namespace

SqliteBackend::SqliteBackend(std::string path, std::string table)
    : path_(std::move(path)), table_(std::move(table)) {}

std::string SqliteBackend::description() const {
  return "SQLite database " + path_ + ", table " + table_;
}

std::string SqliteBackend::arguments() const {
  std::string text = "--db " + shell_word("sqlite:" + path_);
  if (table_ != sqlite::Options{}.table) text += " --table " + shell_word(table_);
  return text;
}

SchemaStatus SqliteBackend::schema_status() { return sqlite::schema_status(path_, table_); }

SchemaStatus SqliteBackend::migrate() { return sqlite::migrate(path_, table_); }

std::string SqliteBackend::schema_sql() const { return sqlite::schema_sql(table_); }

std::shared_ptr<Store> SqliteBackend::open() {
  const SchemaStatus status = schema_status();
  const std::string how = "; run: outbox migrate up " + arguments();
  if (status.newer()) {
    throw ConfigurationError("the schema of the " + description() + " has " + versions(status) +
                             ": use the outbox that belongs to it");
  }
  if (status.present == 0) {
    throw ConfigurationError("there is no outbox in the " + description() + how);
  }
  if (!status.up_to_date()) {
    throw ConfigurationError("the schema of the " + description() + " has " + versions(status) +
                             how);
  }
  return sqlite::open(path_, {.table = table_, .migrate = false});
}

std::vector<Finding> SqliteBackend::examine(const ExamineOptions& options) {
  return examine_sqlite(path_, table_, options);
}

}  // namespace outbox::cli
