#include "cli/stores/sqlite_backend.h"

#include <utility>

#include "cli/stores/schema_check.h"
#include "cli/stores/shell_word.h"
#include "cli/stores/sqlite_examination.h"
#include "outbox/sqlite.h"

namespace outbox::cli {

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
  check_schema(*this, schema_status());
  return sqlite::open(path_, {.table = table_, .migrate = false});
}

std::vector<Finding> SqliteBackend::examine(const ExamineOptions& options) {
  return examine_sqlite(path_, table_, options);
}

}  // namespace outbox::cli
std::string SqliteBackend::missing_file() const { return missing_sqlite_file(path_); }

