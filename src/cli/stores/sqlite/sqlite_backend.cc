#include "cli/stores/sqlite/sqlite_backend.h"

#include <string_view>
#include <utility>

#include "base/url_scheme.h"
#include "cli/stores/schema_check.h"
#include "cli/stores/shell_word.h"
#include "cli/stores/sqlite/sqlite_examination.h"
#include "outbox/sqlite.h"
#include "store/sqlite/names.h"

namespace outbox::cli {
namespace {

constexpr std::string_view kFindBroken = R"sql(
SELECT event_id, CASE typeof(status) WHEN 'integer' THEN status END
FROM {table} INDEXED BY {broken} WHERE {is_broken}
ORDER BY seq LIMIT 1000
)sql";

constexpr std::string_view kFixBroken = R"sql(
UPDATE {table}
SET status = CASE WHEN status IN (0, 1, 2, 3) THEN status ELSE 3 END,
    hold = CASE WHEN status IN (0, 2)
      THEN -max(CASE typeof(available_at) WHEN 'integer' THEN available_at ELSE 1 END, 1) END,
    done_at = CASE WHEN status IN (0, 2) THEN NULL WHEN typeof(done_at) = 'integer' THEN done_at
      ELSE CAST(strftime('%s', 'now') AS INTEGER) * 1000000 END,
    last_error = CASE WHEN status IN (0, 1, 2, 3) THEN last_error
      ELSE 'outbox doctor --repair: the status was none of 0 to 3; the event may have been '
        || 'delivered' END
WHERE event_id = ? AND {is_broken}
)sql";

}  // namespace

SqliteBackend::SqliteBackend(std::string path, std::string table)
    : path_(std::move(path)), table_(std::move(table)) {
  sqlite::check_database_path(path_);  // before anything shows it
}

std::string SqliteBackend::description() const { return sqlite::describe_database(path_, table_); }

std::string SqliteBackend::arguments() const {
  std::string text = "--db " + shell_word("sqlite:" + without_secrets(path_));
  if (table_ != sqlite::Options{}.table) text += " --table " + shell_word(table_);
  return text;
}

std::string SqliteBackend::missing_file() const { return missing_sqlite_file(path_); }

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

RepairSql SqliteBackend::repair_sql() const {
  return {.find = sqlite::expand(kFindBroken, table_), .fix = sqlite::expand(kFixBroken, table_)};
}

}  // namespace outbox::cli
