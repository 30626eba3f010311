#include "outbox/open.h"

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sql_text.h"
#include "client/sqlite/statement.h"
#include "outbox/sqlite.h"
#include "store/common/options.h"
#include "store/common/rows.h"
#include "store/sqlite/names.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/sqlite_store.h"

namespace outbox::sqlite {
namespace {

constexpr int kBusyTimeoutMs = 5'000;

// Null if there is no file.
DatabaseHandle open_to_read(const std::string& path, const std::string& where) {
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, kFlags, nullptr);
  DatabaseHandle handle(db);  // SQLite makes one even if it fails
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(db, kBusyTimeoutMs);
    return handle;
  }
  const bool missing = (code & 0xff) == SQLITE_CANTOPEN && sqlite3_system_errno(db) == ENOENT;
  if (!missing) throw_failure(db, code, "open the database", where);
  return nullptr;
}

std::vector<SchemaStep> applied_steps(sqlite3* db, const std::string& table,
                                      const std::string& where) {
  const std::string migration_table = table + "_migration";
  Statement look(db, sql::kHasMigrations.text, std::string(sql::kHasMigrations.purpose), where);
  if (!Run(look, std::string_view(migration_table)).step()) return {};
  Statement read(db, expand(sql::kMigrations.text, table), std::string(sql::kMigrations.purpose),
                 where);
  std::vector<SchemaStep> steps;
  Run run(read);
  while (run.step()) {
    steps.push_back({.version = static_cast<int>(run.integer(0)),
                     .name = std::string(run.text(1)),
                     .applied_at = time_of(run.integer(2))});
  }
  return steps;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& path, Options options) {
  check_database_path(path);
  check_table_name(options.table);
  options = resolved(std::move(options), "sqlite", "each is an open file and one of them writes");
  const auto config = std::make_shared<StoreConfig>();
  config->path = path;
  config->file = path;
  config->description = describe_database(path, options.table);
  config->options = std::move(options);
  const bool migrate = config->options.migrate;

  // Without migration a new file would be of no use: don't leave one behind.
  auto first = std::make_unique<Database>(config, migrate);
  config->file = sqlite3_db_filename(first->handle(), "main");
  config->identity = FileIdentity::of(config->file);
  config->description = describe_database(config->file, config->options.table);
  ensure_schema(*first, migrate);
  return std::make_shared<SqliteStore>(config, std::move(first));
}

Scheme scheme(Options options) {
  return {.names = {std::string(kUrlScheme), "file"},  // the latter is SQLite's own
          .open = [options = std::move(options)](const std::string& url) {
            return sqlite::open(path_of_url(url), options);
          }};
}

// Without touching the database: open() would switch it to WAL and insist on being allowed to
// write.
SchemaStatus schema_status(const std::string& path, const std::string& table) {
  check_database_path(path);
  check_table_name(table);
  const std::string where = describe_database(path, table);
  const DatabaseHandle db = open_to_read(path, where);
  return migrations().status(db ? applied_steps(db.get(), table, where)
                                : std::vector<SchemaStep>{});
}

SchemaStatus migrate(const std::string& path, const std::string& table) {
  open(path, {.table = table});
  return schema_status(path, table);
}

}  // namespace outbox::sqlite
