// A database, connections of the library's own to it, and pools of them.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/connection_pool.h"
#include "base/sql_text.h"
#include "client/sqlite/statement.h"
#include "outbox/error.h"

namespace outbox::sqlite {

// Throws MisuseError for a database without a file: it belongs to one
// connection, and the store needs many.
void check_database_path(const std::string& path);

inline constexpr std::string_view kUrlScheme = "sqlite";

// What open() takes: the path of `sqlite:PATH` and `sqlite:///ABSOLUTE/PATH`; SQLite's
// own `file:...?...` as it is. Throws MisuseError if it names no file, or a host.
std::string path_of_url(std::string_view url);

// SQLite has one writer at a time and no queue: waiting writers sleep and try
// again, so that under load some starve. The threads of a process stand in line
// here instead, and only the first asks SQLite. Thread-safe.
class WriteTurn {
 public:
  using Instant = FairSlots::Instant;

  // False if the deadline passed first.
  bool take(Instant deadline) {
    if (!slot_.take(deadline)) return false;
    since_ = std::chrono::steady_clock::now();
    return true;
  }
  void give_back() { slot_.give_back(); }

  // For messages: how many wait, and how long the present holder has had it.
  std::size_t waiting() const { return slot_.waiting(); }
  std::chrono::milliseconds held_for() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 since_.load());
  }

 private:
  FairSlots slot_{1};
  std::atomic<Instant> since_{};
};

// Which file a path names.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  // Nullopt if there is no such file.
  static std::optional<FileIdentity> of(const std::string& path) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0) return std::nullopt;
    return FileIdentity{.device = facts.st_dev, .inode = facts.st_ino};
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// The place of a database, the turn to write in it, and how its connections are set up. They
// keep it alive. Constant once it is in use, but for `turn`; thread-safe.
struct DatabaseContext : ConnectionContext {
  std::string path{};                         // as given, perhaps a URI
  std::string file{};                         // the file behind it, absolute
  std::optional<FileIdentity> identity{};     // of that file; absent while it is opened
  std::chrono::milliseconds wait_timeout{0};  // for the turn, and for other processes
  bool synchronous = true;                    // a commit waits for the disk

  mutable WriteTurn turn{};

  bool may_prepare() const override { return true; }

  // Whether the file at the path is no longer the one that the store has opened. What is
  // written to that one is lost with the last connection to it.
  bool file_is_gone() const { return identity && FileIdentity::of(file) != identity; }

  // Throws PermanentError if so. Costs a system call.
  void check_file() const {
    if (!file_is_gone()) return;
    throw PermanentError(file +
                         (FileIdentity::of(file) ? " was replaced" : " was deleted or moved") +
                         " while this process had it open (" + description +
                         "): nothing is written or delivered until the file is back or the "
                         "process has been restarted");
  }
};

// An open connection, set up as the store wants it, with its kept statements,
// and write transactions that wait in line with those of the other threads.
//
// Used by one thread at a time. A child made by fork() may destroy it.
class Database {
 public:
  // `may_create`: whether a missing file is made.
  explicit Database(std::shared_ptr<const DatabaseContext> context, bool may_create = false);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Session& session() { return opened_->session; }
  Statement& operator[](const Sql& sql) { return session()[sql]; }
  const DatabaseContext& context() const { return *context_; }
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
    context_->check_file();
    take_turn(std::chrono::steady_clock::now() + context_->wait_timeout);
    const GiveBack at_end{*this};
    return work();
  }

 private:
  using Instant = std::chrono::steady_clock::time_point;

  // Members in the order of their making: statements go before the handle.
  struct Opened {
    Opened(DatabaseHandle opened_handle, std::shared_ptr<const SqlContext> context)
        : handle(std::move(opened_handle)), session(handle.get(), std::move(context)) {}
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

  const std::shared_ptr<const DatabaseContext> context_;
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

// `on_open` is called with each new connection; `first` is one to begin with, or null.
std::shared_ptr<Pool> make_pool(const std::shared_ptr<const DatabaseContext>& context,
                                PoolLimits limits, std::function<void(sqlite3*)> on_open = {},
                                std::unique_ptr<Database> first = nullptr);

}  // namespace outbox::sqlite
