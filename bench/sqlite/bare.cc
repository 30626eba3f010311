#include "sqlite/bare.h"

#include <stdexcept>

#include "store/sqlite/store_config.h"

namespace outbox::bench {

BareSqlite::BareSqlite(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  db_.reset(db);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + path);
  sqlite3_busy_timeout(db, 5'000);
  exec("PRAGMA journal_mode = WAL");
  exec("PRAGMA synchronous = FULL");
  exec("PRAGMA journal_size_limit = 67108864");
}

void BareSqlite::exec(const std::string& sql) const {
  if (sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(get()));
  }
}

sqlite::StatementHandle BareSqlite::prepare(std::string_view sql) const {
  const std::string text = sqlite::expand(sql, kTable);
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(get(), text.c_str(), static_cast<int>(text.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) throw std::runtime_error(text + ": " + sqlite3_errmsg(get()));
  return sqlite::StatementHandle(statement);
}

void expect(sqlite3_stmt* statement, int code, int wanted) {
  if (code == wanted) return;
  throw std::runtime_error(std::string(sqlite3_sql(statement)) + ": " +
                           sqlite3_errmsg(sqlite3_db_handle(statement)));
}

void run(sqlite3_stmt* statement) {
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = sqlite3_step(statement);
  expect(statement, code, SQLITE_DONE);
  sqlite3_reset(statement);
}

}  // namespace outbox::bench
