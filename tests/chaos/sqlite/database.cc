#include "database.h"

#include <sqlite3.h>

#include <stdexcept>
#include <utility>

#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"

namespace outbox::chaos {
namespace {

constexpr int kBusyTimeoutMs = 10'000;

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Handle = std::unique_ptr<sqlite3, Close>;

Handle open_file(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
  Handle handle(db);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + path);
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  return handle;
}

class SqliteConnection final : public OwnConnection {
 public:
  SqliteConnection(const std::string& path, Store& store)
      : db_(open_file(path)), external_(wrap(db_.get(), store)) {}

  Connection& connection() override { return *external_; }
  void begin() override { execute("BEGIN IMMEDIATE"); }
  void commit() override { execute("COMMIT"); }

  void execute(const std::string& sql) override {
    const int code = sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return;
    const std::string what = sql + ": " + sqlite3_errmsg(db_.get());
    if ((code & 0xff) == SQLITE_BUSY) throw RetryableError(what);
    throw std::runtime_error(what);
  }

  void recover() override {
    if (sqlite3_get_autocommit(db_.get()) == 0) {
      sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }

 private:
  const Handle db_;
  std::unique_ptr<Connection> external_;  // goes before the handle
};

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(std::string path, sqlite::Durability durability)
      : path_(std::move(path)), durability_(durability) {}

  std::shared_ptr<Store> open() override {
    return sqlite::open(path_, {.durability = durability_});
  }
  std::unique_ptr<OwnConnection> connect(Store& store) override {
    return std::make_unique<SqliteConnection>(path_, store);
  }
  std::chrono::milliseconds poll_interval() const override { return std::chrono::seconds{1}; }
  std::vector<std::string> note_registrations() const override { return {}; }

 private:
  const std::string path_;
  const sqlite::Durability durability_;
};

class TemporarySqliteDatabase final : public Database {
 public:
  std::shared_ptr<Store> open() override { return database_.open(); }
  std::unique_ptr<OwnConnection> connect(Store& store) override { return database_.connect(store); }
  std::chrono::milliseconds poll_interval() const override { return database_.poll_interval(); }
  std::vector<std::string> note_registrations() const override {
    return database_.note_registrations();
  }

 private:
  const test::TemporaryDirectory directory_;
  SqliteDatabase database_{directory_.file("shop.db"), sqlite::Durability::normal};
};

}  // namespace

std::unique_ptr<Database> sqlite_database(const std::string& path, sqlite::Durability durability) {
  return std::make_unique<SqliteDatabase>(path, durability);
}

std::unique_ptr<Database> temporary_sqlite_database() {
  return std::make_unique<TemporarySqliteDatabase>();
}

}  // namespace outbox::chaos
