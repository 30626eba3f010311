// One connection of the library's own, and pools of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/connection_pool.h"
#include "client/sqlite/session.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// An open connection, set up as the store wants it, with its kept statements,
// and write transactions that wait in line with those of the other threads.
//
// Used by one thread at a time. A child made by fork() may destroy it.
class Database {
 public:
  // `may_create`: whether a missing file is made.
  explicit Database(StoreConfigPtr config, bool may_create = false);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Session& session() { return opened_->session; }
  Statement& operator[](const Sql& sql) { return session()[sql]; }
  const StoreConfig& config() const { return *config_; }
  sqlite3* handle() const { return opened_->handle.get(); }

  // Runs a statement of sql.h to its end; how many rows it changed.
  template <class... Args>
  std::int64_t execute(const Sql& sql, const Args&... args) {
    return Run(session()[sql], args...).finish();
  }

  // The first column of the first row, if there is one.
  template <class... Args>
  std::optional<std::int64_t> integer(const Sql& sql, const Args&... args) {
    Run run(session()[sql], args...);
    return run.step() ? run.optional_integer(0) : std::nullopt;
  }

  // Runs SQL text without parameters, several statements if need be.
  void run_script(const std::string& text, std::string_view purpose);

  // Waits for the turn, then for other processes, up to wait_timeout in all.
  // Throws RetryableError that says who was in the way, and PermanentError if the file was
  // deleted or replaced.
  void begin();

  // Throws OutcomeUnknownError if SQLite cannot say what became of it, any
  // other Error if it certainly did not happen; it is over either way.
  void commit();
  void rollback() noexcept;

  // Between begin() and commit() or rollback(), whatever SQLite did meanwhile.
  bool began() const { return has_turn_; }

  // What a pool asks: whether one that comes back may be lent again, and whether one that has
  // lain idle still may be.
  bool make_ready() noexcept {
    if (began()) rollback();
    return true;
  }
  bool may_be_lent() const { return opened_ != nullptr; }

  // Runs `work` with the turn to write, for statements that commit themselves.
  template <class Work>
  auto with_turn(Work work) {
    struct GiveBack {
      Database& db;
      ~GiveBack() { db.give_turn_back(); }
    };
    config_->check_file();
    take_turn(std::chrono::steady_clock::now() + config_->options.wait_timeout);
    const GiveBack at_end{*this};
    return work();
  }

 private:
  using Instant = std::chrono::steady_clock::time_point;

  // Members in the order of their making: statements go before the handle.
  struct Opened {
    Opened(DatabaseHandle opened_handle, StoreConfigPtr config)
        : handle(std::move(opened_handle)), session(handle.get(), std::move(config)) {}
    DatabaseHandle handle;
    Session session;
  };

  static int on_busy(void* self, int tries);
  void open(bool may_create);
  void set_up();
  void switch_to_wal();
  void take_turn(Instant deadline);
  void give_turn_back() noexcept;
  bool certainly_undone();

  const StoreConfigPtr config_;
  std::unique_ptr<Opened> opened_;

  bool has_turn_ = false;
  std::optional<Instant> deadline_;  // of the call under way; absent: from its first wait
  Instant waiting_since_{};
};

// A write transaction of the library's own, rolled back unless committed. What
// it does can be repeated, so an unknown outcome is a RetryableError here.
class WriteTransaction {
 public:
  explicit WriteTransaction(Database& db) : db_(db) { db_.begin(); }
  ~WriteTransaction() {
    if (db_.began()) db_.rollback();
  }
  WriteTransaction(const WriteTransaction&) = delete;
  WriteTransaction& operator=(const WriteTransaction&) = delete;

  void commit();

 private:
  Database& db_;
};

// Lends open ones. A transaction that its user left open is rolled back.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `hint` ends the error of those who waited in vain: what to do. `on_open` is called
// with each new connection; `first` is one to begin with, or null.
std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, std::size_t size, std::string hint,
                                std::function<void(sqlite3*)> on_open = {},
                                std::unique_ptr<Database> first = nullptr);

}  // namespace outbox::sqlite
