// SQLite's C API with as little as possible around it: what the library is
// measured against.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/sqlite/handle.h"

namespace outbox::bench {

inline constexpr const char* kTable = "outbox_event";
inline constexpr std::size_t kPayloadBytes = 200;

// JSON text of kPayloadBytes that begins with the number, in 16 digits.
std::string payload(std::uint64_t number);
std::uint64_t number_in(std::string_view payload);

// A connection with the library's own settings: WAL, synchronous = FULL. Used
// by one thread at a time.
class Bare {
 public:
  explicit Bare(const std::string& path);

  sqlite3* get() const { return db_.get(); }

  void exec(const std::string& sql) const;

  // `{table}` and `{columns}` as in the library's own statements.
  sqlite::StatementHandle prepare(std::string_view sql) const;

 private:
  sqlite::DatabaseHandle db_;
};

// Throws std::runtime_error unless the statement has returned that code.
void expect(sqlite3_stmt* statement, int code, int wanted);

// Runs to the end, and resets.
void run(sqlite3_stmt* statement);

// What a table is filled with.
struct Filling {
  std::size_t rows = 0;
  std::size_t aggregates = 1'000;
  std::string hold = "0";  // an SQL expression
  int status = 0;
};

// Makes the tables if need be (by the library itself), and adds rows to them.
// Durable only in the end, and merged into the database file.
void fill(const std::string& path, const Filling& filling);

}  // namespace outbox::bench
