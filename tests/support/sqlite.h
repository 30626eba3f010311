// What tests do on an SQLite file besides what they test.
#pragma once

#include <sqlite3.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "client/sqlite/handle.h"

namespace outbox::test {

// A connection past the library, as another program would have it.
class ForeignConnection {
 public:
  explicit ForeignConnection(const std::string& path) {
    sqlite3* db = nullptr;
    const int code = sqlite3_open(path.c_str(), &db);
    db_.reset(db);
    if (code != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 20'000);
    run("PRAGMA synchronous = OFF");
  }

  sqlite3* get() const { return db_.get(); }

  void run(const std::string& sql) const {
    if (sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(get()));
    }
  }

  // The first column of each row, as text; NULL is "NULL".
  std::vector<std::string> column(const std::string& sql, int index = 0) const {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(get(), sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(get()));
    }
    const sqlite::StatementHandle statement(prepared);
    std::vector<std::string> values;
    while (sqlite3_step(prepared) == SQLITE_ROW) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(prepared, index));
      values.emplace_back(text == nullptr ? "NULL" : text);
    }
    return values;
  }
  std::string value(const std::string& sql) const { return column(sql).at(0); }

 private:
  sqlite::DatabaseHandle db_;
};

}  // namespace outbox::test
