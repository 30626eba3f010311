#include "bare.h"

#include <charconv>
#include <stdexcept>

#include "outbox/sqlite.h"
#include "store/sqlite/names.h"

namespace outbox::bench {
namespace {

constexpr std::string_view kHead = R"({"n":")";
constexpr std::size_t kDigits = 16;

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

std::string padding() {
  constexpr std::size_t kAround = std::string_view(R"({"n":"","x":""})").size() + kDigits;
  return std::string(kPayloadBytes - kAround, 'x');
}

}  // namespace

std::string payload(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text(kHead);
  text.append(kDigits - digits.size(), '0').append(digits);
  return text.append(R"(","x":")").append(padding()).append(R"("})");
}

std::uint64_t number_in(std::string_view payload) {
  const std::string_view digits = payload.substr(kHead.size(), kDigits);
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

Bare::Bare(const std::string& path) {
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

void Bare::exec(const std::string& sql) const {
  if (sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(get()));
  }
}

sqlite::StatementHandle Bare::prepare(std::string_view sql) const {
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

void fill(const std::string& path, const Filling& filling) {
  sqlite::open(path);
  const Bare bare(path);
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
  bare.exec("PRAGMA wal_checkpoint(TRUNCATE)");
}

}  // namespace outbox::bench
