#include "store/sqlite/schema.h"

#include <array>
#include <string_view>

#include "core/sql_text.h"
#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/common/rows.h"
#include "store/sqlite/names.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {
namespace {

struct Migration {
  int version;
  const char* name;
  const char* sql;
};

constexpr Migration kMigrations[] = {
#include "store/sqlite/schema/schema.inc"
};

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
  const std::string migration_table = database.environment().options.table + "_migration";
  if (!database.integer(sql::kHasMigrations, migration_table)) return 0;
  return static_cast<int>(database.integer(sql::kSchemaVersion).value_or(0));
}

void check_not_newer(const Database& database, int version) {
  if (version <= latest_schema_version()) return;
  throw PermanentError("the schema of " + database.environment().description + " has version " +
                       std::to_string(version) + ", and this library knows versions up to " +
                       std::to_string(latest_schema_version()) +
                       ": update the programs that use the older library");
}

void apply(Database& database, const Migration& migration) {
  WriteTransaction transaction(database);
  // Another process may have been quicker.
  const int version = current_version(database);
  check_not_newer(database, version);
  if (version >= migration.version) return;
  const std::string& table = database.environment().options.table;
  const std::string purpose = std::string("apply migration ") + migration.name;
  database.run_script(expand(kMigrationTable, table), purpose);
  database.run_script(expand(migration.sql, table), purpose);
  database.execute(sql::kRecordMigration, migration.version, std::string_view(migration.name),
                   micros(database.environment().now()));
  transaction.commit();
}

}  // namespace

int latest_schema_version() { return std::end(kMigrations)[-1].version; }

std::vector<SchemaStep> known_schema_steps() {
  std::vector<SchemaStep> steps;
  for (const Migration& migration : kMigrations) {
    steps.push_back({.version = migration.version, .name = migration.name});
  }
  return steps;
}

void ensure_schema(Database& database, bool migrate) {
  const int version = current_version(database);
  check_not_newer(database, version);
  if (version == latest_schema_version()) return;
  if (!migrate) {
    throw PermanentError("the schema of " + database.environment().description + " has version " +
                         std::to_string(version) + ", and this library needs version " +
                         std::to_string(latest_schema_version()) +
                         ": set sqlite::Options::migrate, or apply sqlite::schema_sql()");
  }
  for (const Migration& migration : kMigrations) {
    if (migration.version > version) apply(database, migration);
  }
}

std::string schema_sql(const std::string& table) {
  check_table_name(table);
  std::string text = expand(kMigrationTable, table);
  for (const Migration& migration : kMigrations) {
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
