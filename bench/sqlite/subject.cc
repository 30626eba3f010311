// SQLite's C API with as little as possible around it, and the library on the same disk.
#include "subject.h"

#include <sqlite3.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "client/sqlite/handle.h"
#include "events.h"
#include "harness.h"
#include "outbox/sqlite.h"
#include "sqlite/scratch.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/store_config.h"

namespace outbox::bench {
namespace {

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

// Throws std::runtime_error unless the statement has returned that code.
void expect(sqlite3_stmt* statement, int code, int wanted) {
  if (code == wanted) return;
  throw std::runtime_error(std::string(sqlite3_sql(statement)) + ": " +
                           sqlite3_errmsg(sqlite3_db_handle(statement)));
}

// Runs to the end, and resets.
void run(sqlite3_stmt* statement) {
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = sqlite3_step(statement);
  expect(statement, code, SQLITE_DONE);
  sqlite3_reset(statement);
}

class SqliteSubject final : public Subject {
 public:
  std::string name() const override { return "sqlite"; }

  std::vector<Trait> traits() const override { return {Trait::embedded}; }

  Bars bars() const override {
    return {.drain_keep = 0.6,
            .drain_delete = 0.6,
            .drain_naive = 20,
            .write = 0.95,
            .ordered_p50 = 50,
            .unordered_p50 = 20,
            .process_p50 = 2'000,
            .in_process_p99 = 1'000};
  }

  std::vector<std::size_t> writers() const override { return {1}; }

  std::string about() override {
    return "databases in " + scratch_.folder().string() +
           "; synchronous = FULL; a 4 KiB write with fdatasync takes " +
           std::to_string(std::lround(scratch_.sync_cost())) + " us there";
  }

  std::string fresh() override { return scratch_.fresh(); }
  std::string copy(const std::string& path) override { return scratch_.copy(path); }
  void remove(const std::string& path) override { Scratch::remove(path); }

  void fill(const std::string& database, const LanePage& filling) override;
  void tidy_up(const std::string& path) override {
    BareSqlite(path).exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  std::shared_ptr<Store> open(const std::string& path, Opening opening) override {
    const bool keep = opening.finish == Finish::update;
    return sqlite::open(path, {.on_done = keep ? sqlite::OnDone::keep : sqlite::OnDone::remove});
  }

  std::unique_ptr<BareConnection> connect(const std::string& path) override {
    return std::make_unique<BareSqlite>(path);
  }
  std::unique_ptr<BareWriter> writer(const std::string& database) override;
  double drain_naive(const std::string& database, std::size_t events) override;
  double drain_limit(const std::string& database, std::size_t events, Finish finish) override;
  double drain_position_limit(const std::string&, std::size_t) override {
    throw std::runtime_error("there is no progress by position");
  }
  double logged(const std::string&) override { return 0; }
  std::vector<Visited> visited(const std::string& database, std::size_t rows,
                               const std::function<void()>& poll) override;

 private:
  Scratch scratch_;
};

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

void SqliteSubject::fill(const std::string& path, const LanePage& filling) {
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

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class SqliteWriter final : public BareWriter {
 public:
  explicit SqliteWriter(const std::string& path)
      : bare_(path),
        begin_(bare_.prepare("BEGIN IMMEDIATE")),
        insert_(bare_.prepare(sqlite::sql::kInsert<1>.text)),
        commit_(bare_.prepare("COMMIT")) {}

  void write(std::uint64_t number) override {
    const std::string text = payload(number);
    const std::string id = event_id(number);
    const std::string aggregate = aggregate_id(number);
    const auto bind_text = [&](int index, const std::string& value) {
      sqlite3_bind_text(insert_.get(), index, value.data(), static_cast<int>(value.size()),
                        SQLITE_STATIC);
    };
    static const std::string kType = "Placed";
    static const std::string kAggregateType = "Order";
    bind_text(1, id);
    bind_text(2, kType);
    bind_text(3, kAggregateType);
    bind_text(4, aggregate);
    bind_text(8, text);
    sqlite3_bind_int64(insert_.get(), 9, now());
    sqlite3_bind_int64(insert_.get(), 10, now());
    sqlite3_bind_int64(insert_.get(), 11, 0);
    run(begin_.get());
    run(insert_.get());
    run(commit_.get());
  }

 private:
  BareSqlite bare_;
  sqlite::StatementHandle begin_;
  sqlite::StatementHandle insert_;
  sqlite::StatementHandle commit_;
};

std::unique_ptr<BareWriter> SqliteSubject::writer(const std::string& path) {
  sqlite::open(path);
  return std::make_unique<SqliteWriter>(path);
}

constexpr int kClaimed = 100;

constexpr const char* kClaim = R"sql(
UPDATE {table} SET locked_by = 'naive', locked_at = 1
WHERE seq IN (SELECT seq FROM {table}
              WHERE hold = 0 AND status IN (0, 2) AND locked_by IS NULL ORDER BY seq LIMIT ?1)
RETURNING {columns}
)sql";

constexpr const char* kDone = R"sql(
UPDATE {table} SET status = 1, done_at = 1, hold = NULL WHERE seq = ?1 AND status IN (0, 2)
)sql";

double SqliteSubject::drain_naive(const std::string& database, std::size_t events) {
  const BareSqlite bare(database);
  const auto claim = bare.prepare(kClaim);
  const auto done = bare.prepare(kDone);
  std::size_t delivered = 0;
  return seconds_of([&] {
    while (delivered < events) {
      std::vector<std::int64_t> seqs;
      sqlite3_bind_int(claim.get(), 1, kClaimed);
      while (sqlite3_step(claim.get()) == SQLITE_ROW) {
        seqs.push_back(sqlite3_column_int64(claim.get(), 0));
      }
      expect(claim.get(), sqlite3_reset(claim.get()), SQLITE_OK);
      if (seqs.empty()) throw std::runtime_error("naive: nothing left to claim");
      for (const std::int64_t seq : seqs) {
        sqlite3_bind_int64(done.get(), 1, seq);
        run(done.get());
      }
      delivered += seqs.size();
    }
  });
}

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

double SqliteSubject::drain_limit(const std::string& database, std::size_t events, Finish finish) {
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

// Steps of SQLite's virtual machine, which grow with the rows visited. The
// distribution's SQLite counts no rows, and the store's statements are out of reach; so
// the very same ones run here, on a connection of our own.
std::vector<Visited> SqliteSubject::visited(const std::string& path, std::size_t rows,
                                            const std::function<void()>& /*poll*/) {
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

}  // namespace

std::unique_ptr<Subject> sqlite_subject() { return std::make_unique<SqliteSubject>(); }

}  // namespace outbox::bench
