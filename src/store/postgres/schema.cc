#include <string_view>
#include <utility>
#include <vector>

#include "client/postgres/statement.h"
#include "outbox/postgres.h"
#include "store/common/migrations.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {
namespace {

constexpr Migration kSteps[] = {
#include "store/postgres/schema/schema.inc"
};
constexpr Migrations kMigrations(kSteps, "postgres");

// Not a migration itself: it is what remembers them.
constexpr std::string_view kMigrationTable = R"sql(
CREATE TABLE IF NOT EXISTS {migration} (
  version    integer     PRIMARY KEY,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
)sql";

// Alone, to_regclass() answers from what the server process remembers, also that there
// was no such table before it waited for its turn; to read a table makes it look again.
constexpr Sql kHasMigrations{"look for the schema", R"sql(
SELECT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('{migration}'))
)sql"};

constexpr Sql kApplied{"read which migrations were applied", R"sql(
SELECT version, name, applied_at FROM {migration} ORDER BY version
)sql"};

constexpr Sql kSchemaOfTable{"find the schema of the table", R"sql(
SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE pg_class.oid = '{table}'::regclass
)sql"};

// In one script with the migration, hence in one transaction: others wait here, and
// then find that it was applied. The number is nobody else's.
constexpr std::string_view kTakeTurn =
    "SELECT pg_advisory_xact_lock(hashtextextended('outbox migration of {migration}', 0));\n";

std::string record_of(const Migration& migration) {
  return "INSERT INTO {migration} (version, name) VALUES (" + std::to_string(migration.version) +
         ", '" + migration.name + "');\n";
}

// A step for those who apply the text to tables of any version.
std::string unless_applied(const Migration& migration) {
  return "DO $outbox$ BEGIN\n"
         "IF EXISTS (SELECT FROM {migration} WHERE version = " +
         std::to_string(migration.version) + ") THEN RETURN; END IF;\n" + migration.sql +
         record_of(migration) + "END $outbox$;\n";
}

// The check of status and hold, if there are rows that it does not hold for.
constexpr Sql kUnchecked{"look for rows that contradict themselves", R"sql(
SELECT FROM pg_constraint
WHERE conrelid = '{table}'::regclass AND '"' || conname || '"' = '{index state}' AND NOT convalidated
)sql"};

void tell_of_contradictions(Database& database) {
  if (database.run(kUnchecked).rows() == 0) return;
  const StoreConfig& config = config_of(database);
  config.options.log(
      {LogLevel::warning,
       "rows_contradictory",
       "some events contradict themselves (" + config.description +
           "): their status and hold do not agree, and they are not delivered; look for them with "
           "outbox doctor, correct them, and run " +
           expand("ALTER TABLE {table} VALIDATE CONSTRAINT {index state}", config.table),
       {{"store", config.description}}});
}

// All of it is one transaction: BEGIN, the turn, the check, the steps, COMMIT.
void apply(Database& database, const Migration& migration) {
  const TableName& table = config_of(database).table;
  const std::string purpose = std::string("apply migration ") + migration.name;
  Session& session = database.session();
  const auto run = [&](const std::string& text) {
    session.run_script(expand(text, table), purpose);
  };
  run("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL statement_timeout = 0; "
      "SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0");
  try {
    run(std::string(kTakeTurn));
    // Another process may have been quicker.
    const int version = read_schema_status(database).present;
    kMigrations.check_not_newer(version, config_of(database).description);
    if (version < migration.version) {
      run(std::string(kMigrationTable) + migration.sql + record_of(migration));
    }
    run("COMMIT");
  } catch (...) {
    static_cast<void>(session.try_script("ROLLBACK"));
    throw;
  }
}

}  // namespace

SchemaStatus read_schema_status(Database& database) {
  std::vector<SchemaStep> applied;
  if (database.run(kHasMigrations).integer(0, 0) != 0) {
    const Result found = database.run(kApplied);
    for (int row = 0; row < found.rows(); ++row) {
      applied.push_back({.version = static_cast<int>(found.integer(row, 0)),
                         .name = std::string(found.text(row, 1)),
                         .applied_at = found.time(row, 2)});
    }
  }
  return kMigrations.status(std::move(applied));
}

void ensure_schema(Database& database, bool migrate) {
  const std::string& description = config_of(database).description;
  const int version = read_schema_status(database).present;
  for (const Migration& migration : kMigrations.missing(version, migrate, description)) {
    apply(database, migration);
  }
  tell_of_contradictions(database);
}

std::string schema_of_table(Database& database) {
  return std::string(database.run(kSchemaOfTable).text(0, 0));
}

std::string schema_sql(const std::string& table) {
  const TableName name = TableName::parse(table);
  std::string text = expand(kMigrationTable, name);
  // Each in a transaction of its own: some need a lock that is not to be held while another
  // one reads the whole table.
  for (const Migration& migration : kMigrations.all()) {
    text.append("\nBEGIN;\n").append(expand(unless_applied(migration), name)).append("COMMIT;\n");
  }
  return text;
}

}  // namespace outbox::postgres
