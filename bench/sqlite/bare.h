// SQLite's C API with as little as possible around it.
#pragma once

#include <sqlite3.h>

#include <string>
#include <string_view>

#include "client/sqlite/handle.h"
#include "subject.h"

namespace outbox::bench {

// A connection with the library's own settings: WAL, synchronous = FULL. Used
// by one thread at a time.
class BareSqlite final : public BareConnection {
 public:
  explicit BareSqlite(const std::string& path);

  sqlite3* get() const { return db_.get(); }

  void exec(const std::string& sql) const override;

  // `{table}` and `{columns}` as in the library's own statements.
  sqlite::StatementHandle prepare(std::string_view sql) const;

 private:
  sqlite::DatabaseHandle db_;
};

// Throws std::runtime_error unless the statement has returned that code.
void expect(sqlite3_stmt* statement, int code, int wanted);

// Runs to the end, and resets.
void run(sqlite3_stmt* statement);

}  // namespace outbox::bench
