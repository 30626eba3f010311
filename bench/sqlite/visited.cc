#include <cstdint>

#include "sqlite/bare.h"
#include "sqlite/parts.h"
#include "store/sqlite/sql.h"

namespace outbox::bench {

// Steps of SQLite's virtual machine, which grow with the rows visited. The
// distribution's SQLite counts no rows, and the store's statements are out of reach; so
// the very same ones run here, on a connection of our own.
std::vector<Visited> sqlite_visited(const std::string& path, std::size_t rows) {
  const BareSqlite bare(path);
  std::int64_t total = 0;
  const auto count = [&](const sqlite::Sql& sql, std::vector<std::int64_t> values) {
    const auto statement = bare.prepare(sql.text);
    int index = 0;
    for (const std::int64_t value : values) sqlite3_bind_int64(statement.get(), ++index, value);
    run(statement.get());
    total += sqlite3_stmt_status(statement.get(), SQLITE_STMTSTATUS_VM_STEP, 0);
  };
  count(sqlite::sql::kReady, {0, static_cast<std::int64_t>(rows) + 1});
  count(sqlite::sql::kEarliest, {0});
  return {{.what = "vm steps", .count = static_cast<double>(total)}};
}

}  // namespace outbox::bench
