#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/postgres/statement.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/common/migrations.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {
namespace {

constexpr Migration kSteps[] = {
#include "store/postgres/schema/schema.inc"
};

// The last two are not migrations: see their files. They are noted under the first one's number.
constexpr const Migration& kPosition = *(std::end(kSteps) - 2);
constexpr const Migration& kCursors = *(std::end(kSteps) - 1);
static_assert(kPosition.version == 1'000, "the statements below spell it out");
constexpr Migrations kMigrations(std::span<const Migration>(kSteps).first(std::size(kSteps) - 2),
                                 "postgres");

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
SELECT version, name, applied_at FROM {migration} WHERE version < 1000 ORDER BY version
)sql"};

constexpr Sql kByPosition{"read how the table keeps progress", R"sql(
SELECT EXISTS (SELECT FROM {migration} WHERE version = 1000)
)sql"};

constexpr Sql kUsed{"look whether the table was used", R"sql(
SELECT (SELECT is_called FROM {sequence}) OR EXISTS (SELECT FROM {instance})
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
std::string unless_applied(const Migration& migration, const std::string& text) {
  return "DO $outbox$ BEGIN\n"
         "IF EXISTS (SELECT FROM {migration} WHERE version = " +
         std::to_string(migration.version) + ") THEN RETURN; END IF;\n" + text +
         record_of(migration) + "END $outbox$;\n";
}

// As begin_positions() does.
constexpr std::string_view kUnlessUsed =
    R"sql(LOCK TABLE {table}, {instance} IN ACCESS EXCLUSIVE MODE;
IF (SELECT is_called FROM {sequence}) OR EXISTS (SELECT FROM {instance}) THEN
  RAISE EXCEPTION 'the table keeps its progress in its rows, and was used: begin with another one';
END IF;
)sql";

Naming by_position() {
  return {.progress = Progress::position, .subscription = std::string(kDefaultSubscription)};
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

// All of it is one transaction: BEGIN, the turn, what `steps` does, COMMIT. That gets what runs a
// script.
template <class Steps>
void change_schema(Database& database, const std::string& purpose, const Steps& steps) {
  const TableName& table = config_of(database).table;
  Session& session = database.session();
  const auto run = [&](const std::string& text) {
    session.run_script(expand(text, table), purpose);
  };
  run("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL statement_timeout = 0; "
      "SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0");
  try {
    run(std::string(kTakeTurn));
    steps(run);
    run("COMMIT");
  } catch (...) {
    static_cast<void>(session.try_script("ROLLBACK"));
    throw;
  }
}

void apply(Database& database, const Migration& migration) {
  change_schema(database, std::string("apply migration ") + migration.name, [&](const auto& run) {
    // Another process may have been quicker.
    const int version = read_schema_status(database).present;
    kMigrations.check_not_newer(version, config_of(database).description);
    if (version < migration.version) {
      run(std::string(kMigrationTable) + migration.sql + record_of(migration));
    }
  });
}

bool is_by_position(Database& database) { return database.run(kByPosition).integer(0, 0) != 0; }

[[noreturn]] void refuse_progress(Database& database, bool by_position) {
  const std::string has = by_position ? "by position" : "in its rows";
  throw PermanentError("the table keeps its progress " + has + " (" +
                       config_of(database).description +
                       "), and postgres::Options::progress asks "
                       "for the other kind: leave it out, or use another table");
}

// Only a table that nobody has used: its rows would have no transaction, and its engines would go
// on updating them.
void begin_positions(Database& database) {
  change_schema(database, "set up progress by position", [&](const auto& run) {
    if (is_by_position(database)) return;
    run("LOCK TABLE {table}, {instance} IN ACCESS EXCLUSIVE MODE");
    if (database.run(kUsed).integer(0, 0) != 0) refuse_progress(database, false);
    const StoreConfig& config = config_of(database);
    run(expand(kPosition.sql + positions_sql(), config.table, by_position()));
  });
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

Progress ensure_progress(Database& database, std::optional<Progress> wanted, bool migrate) {
  const bool by_position = is_by_position(database);
  if (wanted == Progress::row && by_position) refuse_progress(database, true);
  if (by_position) return Progress::position;
  if (wanted != Progress::position) return Progress::row;
  if (!migrate) refuse_progress(database, false);
  begin_positions(database);
  return Progress::position;
}

std::string positions_sql() { return kCursors.sql + record_of(kPosition); }

std::string schema_of_table(Database& database) {
  return std::string(database.run(kSchemaOfTable).text(0, 0));
}

std::string schema_sql(const std::string& table, Progress progress) {
  const TableName name = TableName::parse(table);
  std::string text = expand(kMigrationTable, name);
  // Each in a transaction of its own: some need a lock that is not to be held while another
  // one reads the whole table.
  for (const Migration& migration : kMigrations.all()) {
    text.append("\nBEGIN;\n")
        .append(expand(unless_applied(migration, migration.sql), name))
        .append("COMMIT;\n");
  }
  if (progress == Progress::position) {
    text.append("\nBEGIN;\n")
        .append(expand(
            unless_applied(kPosition, std::string(kUnlessUsed) + kPosition.sql + kCursors.sql),
            name, by_position()))
        .append("COMMIT;\n");
  }
  return text;
}

}  // namespace outbox::postgres
