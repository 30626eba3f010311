#include <cstdint>
#include <stdexcept>
#include <string>

#include "events.h"
#include "outbox/sqlite.h"
#include "sqlite/bare.h"
#include "sqlite/parts.h"

namespace outbox::bench {
namespace {

// As payload(), in SQL.
constexpr const char* kFill = R"sql(
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)
INSERT INTO {table} (event_id, event_type, aggregate_type, aggregate_id, status, hold, done_at,
                     available_at, created_at, payload)
SELECT printf('%026d', i + :first), 'Placed', 'Order', 'order-' || (i % :aggregates), :status,
       HOLD, CASE WHEN :status = 1 THEN 1 END, 1, 1,
       '{"n":"' || printf('%016d', i) || '","x":"' || :padding || '"}'
FROM n
)sql";

void bind(sqlite3_stmt* statement, const char* name, std::int64_t value) {
  sqlite3_bind_int64(statement, sqlite3_bind_parameter_index(statement, name), value);
}

}  // namespace

void fill_sqlite(const std::string& path, const LanePage& filling) {
  sqlite::open(path);
  const BareSqlite bare(path);
  bare.exec("PRAGMA synchronous = OFF");
  // Braces of the JSON text are no names to be filled in.
  std::string text = kFill;
  text.replace(text.find("{table}"), 7, kTable);
  text.replace(text.find("HOLD"), 4, filling.hold);
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(bare.get(), text.c_str(), -1, &raw, nullptr) != SQLITE_OK) {
    throw std::runtime_error(text + ": " + sqlite3_errmsg(bare.get()));
  }
  const sqlite::StatementHandle statement(raw);
  const auto first = bare.prepare("SELECT coalesce(max(seq), 0) FROM {table}");
  expect(first.get(), sqlite3_step(first.get()), SQLITE_ROW);
  bind(raw, ":first", sqlite3_column_int64(first.get(), 0));
  sqlite3_reset(first.get());
  bind(raw, ":rows", static_cast<std::int64_t>(filling.rows));
  bind(raw, ":aggregates", static_cast<std::int64_t>(filling.aggregates));
  bind(raw, ":status", filling.status);
  const std::string pad = padding();
  sqlite3_bind_text(raw, sqlite3_bind_parameter_index(raw, ":padding"), pad.c_str(), -1,
                    SQLITE_STATIC);
  run(raw);
}

}  // namespace outbox::bench
