#include "observer.h"

#include <sqlite3.h>

#include <stdexcept>

#include "outbox/sqlite.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

constexpr int kBusyTimeoutMs = 10'000;

constexpr const char* kCommitted =
    "SELECT event_id, aggregate, number, ordered, not_before FROM business";
constexpr const char* kPending = "SELECT count(*) FROM outbox_event WHERE status IN (0, 2)";
constexpr const char* kDead = "SELECT count(*) FROM outbox_event WHERE status = 3";
constexpr const char* kCrashes =
    "SELECT coalesce(max(crashes), 0) FROM outbox_event WHERE hold IS NOT NULL";
constexpr const char* kOwner = "SELECT coalesce(max(pid), 0) FROM outbox_event_instance";
constexpr const char* kUnfinished =
    "SELECT seq || ' ' || event_id || ' aggregate ' || coalesce(aggregate_id, '-')"
    " || ' status ' || status || ' hold ' || coalesce(hold, 'NULL') || ' attempts ' || attempts"
    " || ' crashes ' || crashes || ' locked by ' || coalesce(locked_by, '-')"
    " || ' error ' || coalesce(last_error, '-')"
    " FROM outbox_event WHERE status <> 1 ORDER BY seq LIMIT 10";

}  // namespace

// A statement that is stepped through.
class Observer::Rows {
 public:
  Rows(sqlite3* db, const char* sql) : db_(db) {
    if (sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK) {
      throw std::runtime_error(std::string(sql) + ": " + sqlite3_errmsg(db));
    }
  }
  ~Rows() { sqlite3_finalize(statement_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  bool next() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    throw std::runtime_error(std::string("cannot observe: ") + sqlite3_errmsg(db_));
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const auto* value = sqlite3_column_text(statement_, column);
    return value == nullptr ? "" : reinterpret_cast<const char*>(value);
  }

 private:
  sqlite3* const db_;
  sqlite3_stmt* statement_ = nullptr;
};

void Observer::Close::operator()(sqlite3* db) const { sqlite3_close(db); }

Observer::Observer(const std::string& database) {
  sqlite::open(database);  // creates the outbox's tables
  sqlite3* db = nullptr;
  const int code = sqlite3_open(database.c_str(), &db);
  db_.reset(db);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + database);
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  for (const char* table : {kBusinessTable, kCounterTable}) Rows(db, table).next();
}

Observer::~Observer() = default;

std::int64_t Observer::number(const char* sql) {
  Rows rows(db_.get(), sql);
  return rows.next() ? rows.integer(0) : 0;
}

std::vector<Committed> Observer::committed() {
  std::vector<Committed> result;
  Rows rows(db_.get(), kCommitted);
  while (rows.next()) {
    result.push_back({.id = rows.text(0),
                      .aggregate = rows.text(1),
                      .number = rows.integer(2),
                      .ordered = rows.integer(3) != 0,
                      .not_before = rows.integer(4)});
  }
  return result;
}

std::size_t Observer::pending() { return static_cast<std::size_t>(number(kPending)); }
std::size_t Observer::dead() { return static_cast<std::size_t>(number(kDead)); }
std::int64_t Observer::most_crashes() { return number(kCrashes); }
pid_t Observer::owner() { return static_cast<pid_t>(number(kOwner)); }

std::vector<std::string> Observer::unfinished() {
  std::vector<std::string> lines;
  Rows rows(db_.get(), kUnfinished);
  while (rows.next()) lines.push_back(rows.text(0));
  return lines;
}

}  // namespace outbox::chaos
