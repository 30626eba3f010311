#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sql_text.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/common/migrations.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {
namespace {

constexpr Migration kSteps[] = {
#include "store/mysql/schema/schema.inc"
};
constexpr Migrations kMigrations(kSteps, "mysql");

// Not a migration itself: it is what remembers them.
constexpr std::string_view kMigrationTable = R"sql(
CREATE TABLE IF NOT EXISTS {migration} (
  version    INT          NOT NULL PRIMARY KEY,
  name       VARCHAR(255) NOT NULL,
  applied_at DATETIME(6)  NOT NULL DEFAULT (utc_timestamp(6))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
)sql";

// The name of the collation differs, and MySQL does not know MariaDB's.
std::string filled_in(std::string_view text, const TableName& table, Server server) {
  return expand_names(text, [&](std::string_view what) {
    if (what == "collation") {
      return std::string(server == Server::mariadb ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin");
    }
    if (what == "name") return table.table;
    if (what == "schema") {
      return table.schema.empty() ? std::string("database()") : "'" + table.schema + "'";
    }
    return expand("{" + std::string(what) + "}", table);
  });
}

std::string record_of(const Migration& migration) {
  return "INSERT IGNORE INTO {migration} (version, name) VALUES (" +
         std::to_string(migration.version) + ", '" + migration.name + "');\n";
}

std::string script_of(const Migration& migration) {
  return std::string(kMigrationTable) + migration.sql + record_of(migration);
}

// At the ends of lines, where the files of schema/ have them and texts do not.
std::vector<std::string> statements_of(const std::string& script) {
  std::vector<std::string> statements;
  std::size_t at = 0;
  while (true) {
    const std::size_t end = script.find(";\n", at);
    if (end == std::string::npos) return statements;
    statements.push_back(script.substr(at, end - at));
    at = end + 2;
  }
}

// A row that is there already violates a constraint that is to be added.
bool violates_constraint(const Failure& failure) {
  constexpr unsigned kOfMariaDb = 4025;
  constexpr unsigned kOfMySql = 3819;
  return failure.number == kOfMariaDb || failure.number == kOfMySql;
}

// The tables work without it, as they did before; what is wrong in them is for somebody to
// look at.
void warn_of_violations(const StoreConfig& config) {
  const std::string table = config.table.text();
  config.options.log(
      {LogLevel::warning,
       "rows_contradictory",
       "rows of " + table + " contradict themselves (" + config.description +
           "), so the constraint `" + config.table.table +
           "_state` was not added, and they are not delivered; find them with SELECT event_id, "
           "status, hold FROM " +
           table +
           " WHERE NOT ((status IN (0, 2) AND hold IS NOT NULL) OR (status = 1 AND hold IS NULL) "
           "OR "
           "(status = 3 AND (hold IS NULL OR hold > 0))), set them right, and add it as "
           "mysql::schema_sql() does",
       {{"store", config.description}, {"table", table}}});
}

bool has_table(Database& database) {
  const TableName& table = config_of(database).table;
  Built look("look for the schema", config_of(database));
  look.sql("SELECT count(*) FROM information_schema.tables WHERE table_name = ")
      .value(table.table + "_migration")
      .sql(" AND table_schema = ");
  if (table.schema.empty()) {
    look.sql("database()");
  } else {
    look.value(table.schema);
  }
  return database.run(look).integer(0, 0) != 0;
}

// One at a time; who waited finds that it was applied.
class Turn {
 public:
  explicit Turn(Database& database) : database_(database), name_(turn_of(database)) {
    constexpr int kSeconds = 60;
    const Result taken = database_.session().run_text(
        "SELECT GET_LOCK(" + name_ + ", " + std::to_string(kSeconds) + ")",
        "take the migration lock");
    if (taken.integer(0, 0) == 1) return;
    throw RetryableError("another process has been migrating the tables for " +
                         std::to_string(kSeconds) + " s (" + config_of(database_).description +
                         ")");
  }
  ~Turn() {
    if (database_.handle() != nullptr) {
      database_.session().try_text("DO RELEASE_LOCK(" + name_ + ")");
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  // Of at most 64 characters, and one for all tables of that name in whatever database.
  static std::string turn_of(Database& database) {
    const std::string& table = config_of(database).table.table;
    return "'outbox " + table.substr(0, 48) + "'";
  }

  Database& database_;
  const std::string name_;
};

}  // namespace

SchemaStatus read_schema_status(Database& database) {
  std::vector<SchemaStep> applied;
  if (has_table(database)) {
    const Result found = database.run(
        Built("read which migrations were applied", config_of(database))
            .sql("SELECT version, name, applied_at FROM {migration} ORDER BY version"));
    for (int row = 0; row < found.rows(); ++row) {
      applied.push_back({.version = static_cast<int>(found.integer(row, 0)),
                         .name = std::string(found.text(row, 1)),
                         .applied_at = found.time(row, 2)});
    }
  }
  return kMigrations.status(std::move(applied));
}

void ensure_schema(Database& database, bool migrate) {
  const StoreConfig& config = config_of(database);
  const auto missing = [&] {
    return kMigrations.missing(read_schema_status(database).present, migrate, config.description);
  };
  if (missing().empty()) return;
  const Turn turn(database);
  const Server server =
      mariadb_connection(database.session().handle()) != 0 ? Server::mariadb : Server::mysql;
  for (const Migration& migration : missing()) {
    const std::string purpose = std::string("apply migration ") + migration.name;
    for (const std::string& statement :
         statements_of(filled_in(script_of(migration), config.table, server))) {
      try {
        database.session().run_text(statement, purpose);
      } catch (const Error&) {
        if (!violates_constraint(database.last_failure())) throw;
        warn_of_violations(config);
      }
    }
  }
}

std::string born_at(Session& session) {
  try {
    const Result born =
        session.run(Built("find out which tables they are", config_of(session)).sql(kBornSql));
    return born.rows() == 0 ? "" : std::string(born.text(0, 0));
  } catch (const Error&) {
    if (session.last_failure().ended_transaction()) throw;
    session.forget_failure();
    return "";
  }
}

std::string schema_sql(Server server, const std::string& table) {
  const TableName name = TableName::parse(table);
  std::string text = filled_in(kMigrationTable, name, server);
  for (const Migration& migration : kMigrations.all()) {
    text.append("\n").append(filled_in(migration.sql, name, server)).append("\n");
    text.append(filled_in(record_of(migration), name, server));
  }
  return text;
}

}  // namespace outbox::mysql
