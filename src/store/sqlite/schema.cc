#include <string_view>

#include "base/sql_text.h"
#include "model/event_row.h"
#include "outbox/sqlite.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {
namespace {

constexpr Migration kSteps[] = {
#include "store/sqlite/schema/schema.inc"
};
constexpr Migrations kMigrations(kSteps, "sqlite");

// Not a migration itself: it is what remembers them.
constexpr std::string_view kMigrationTable = R"sql(
CREATE TABLE IF NOT EXISTS {migration} (
  version    INTEGER PRIMARY KEY,
  name       TEXT    NOT NULL,
  applied_at INTEGER NOT NULL
);
)sql";

// 0 if there are no tables yet.
int current_version(Database& database) {
  const std::string migration_table = config_of(database).options.table + "_migration";
  if (!database.integer(sql::kHasMigrations, migration_table)) return 0;
  return static_cast<int>(database.integer(sql::kSchemaVersion).value_or(0));
}

void apply(Database& database, const Migration& migration) {
  WriteTransaction transaction(database);
  // Another process may have been quicker.
  const int version = current_version(database);
  kMigrations.check_not_newer(version, config_of(database).description);
  if (version >= migration.version) return;
  const std::string& table = config_of(database).options.table;
  const std::string purpose = std::string("apply migration ") + migration.name;
  database.run_script(expand(kMigrationTable, table), purpose);
  database.run_script(expand(migration.sql, table), purpose);
  database.execute(sql::kRecordMigration, migration.version, std::string_view(migration.name),
                   micros(config_of(database).now()));
  transaction.commit();
}

}  // namespace

const Migrations& migrations() { return kMigrations; }

void ensure_schema(Database& database, bool migrate) {
  const std::string& description = config_of(database).description;
  const auto missing = kMigrations.missing(current_version(database), migrate, description);
  for (const Migration& migration : missing) apply(database, migration);
  // Rows that an older schema allowed stay as they are.
  if (!missing.empty()) BrokenRowsReport{}.report(database);
}

std::string schema_sql(const std::string& table) {
  check_table_name(table);
  std::string text = expand(kMigrationTable, table);
  for (const Migration& migration : kMigrations.all()) {
    text.append("\n").append(expand(migration.sql, table)).append("\n");
    text.append(
            expand("INSERT OR IGNORE INTO {migration} (version, name, applied_at) VALUES (", table))
        .append(std::to_string(migration.version))
        .append(", '")
        .append(migration.name)
        .append("', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);\n");
  }
  return text;
}

}  // namespace outbox::sqlite
