#include <sqlite3.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness.h"
#include "sqlite/bare.h"
#include "sqlite/parts.h"
#include "store/sqlite/sql.h"

namespace outbox::bench {
namespace {

constexpr int kBatch = 500;

constexpr const char* kUpdate = R"sql(
UPDATE {table} SET status = 1, done_at = 1, hold = NULL
WHERE seq IN (SELECT value FROM json_each(?1)) AND status IN (0, 2)
)sql";

constexpr const char* kDelete = R"sql(
DELETE FROM {table}
WHERE seq IN (SELECT value FROM json_each(?1)) AND status IN (0, 2)
)sql";

// Fetches every column, as a listener that wants them all would.
std::size_t read_columns(sqlite3_stmt* row) {
  std::size_t bytes = 0;
  const int columns = sqlite3_column_count(row);
  for (int column = 0; column < columns; ++column) {
    static_cast<void>(sqlite3_column_blob(row, column));
    bytes += static_cast<std::size_t>(sqlite3_column_bytes(row, column));
  }
  return bytes;
}

}  // namespace

double sqlite_limit(const std::string& database, std::size_t events, Finish finish) {
  const BareSqlite bare(database);
  const auto begin = bare.prepare("BEGIN IMMEDIATE");
  const auto commit = bare.prepare("COMMIT");
  const auto select = bare.prepare(sqlite::sql::kReady.text);
  const auto update = bare.prepare(finish == Finish::update ? kUpdate : kDelete);
  std::size_t delivered = 0;
  std::size_t bytes = 0;
  std::int64_t floor = 0;
  const double seconds = seconds_of([&] {
    for (;;) {
      std::string seqs;
      sqlite3_bind_int64(select.get(), 1, floor);
      sqlite3_bind_int(select.get(), 2, kBatch);
      while (sqlite3_step(select.get()) == SQLITE_ROW) {
        floor = sqlite3_column_int64(select.get(), 0);
        bytes += read_columns(select.get());
        seqs.append(seqs.empty() ? "[" : ",").append(std::to_string(floor));
        ++delivered;
      }
      expect(select.get(), sqlite3_reset(select.get()), SQLITE_OK);
      if (seqs.empty()) break;
      seqs.append("]");
      run(begin.get());
      sqlite3_bind_text(update.get(), 1, seqs.c_str(), static_cast<int>(seqs.size()),
                        SQLITE_STATIC);
      run(update.get());
      run(commit.get());
    }
  });
  if (delivered != events || bytes == 0) throw std::runtime_error("limit: not all was delivered");
  return seconds;
}

}  // namespace outbox::bench
