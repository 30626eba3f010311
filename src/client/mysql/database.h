// A database, connections of the library's own to it, and pools of them.
#pragma once

#include <mysqld_error.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/connection_pool.h"
#include "base/sql_text.h"
#include "client/mysql/connect_options.h"
#include "client/mysql/facts.h"
#include "client/mysql/session.h"
#include "model/registration.h"
#include "outbox/error.h"

namespace outbox::mysql {

// Who runs statements on a connection of the library's own.
enum class Use {
  // The library alone: UTC, READ COMMITTED (claims must not lock what they pass over),
  // a strict SQL mode, and the rest of kSessionSettings.
  engine,

  // The user's transactions. What their statements mean is left to the server's
  // settings, as on any other connection of theirs, and to Options::on_open; the
  // library's own statements in them depend on none.
  transactions,
};

// A connection that was made, and what it leads to.
struct Link {
  ConnectionHandle handle{};
  Facts facts{};
};

// The address that a connection was made with.
std::string place_of(MYSQL* connection);

// The way to a database, and what its connections have learnt of it. They keep it alive.
// Constant once it is in use, but for what is mutable; thread-safe.
struct DatabaseContext : ConnectionContext {
  explicit DatabaseContext(const std::string& url) : target(url) {}

  const ConnectOptions target;

  mutable Reconnection reconnection{};

  // How many bytes a statement may have, by the last connection that was made. One that
  // is longer ends its connection.
  mutable std::atomic<std::size_t> max_packet{1024};

  // How often instances have registered, and how often one found that the database has
  // another history than before. Connections that were made before the last time may lead
  // to a server that is the primary no more: the library's own are re-established after each
  // registration, those of users' transactions after a change of history.
  mutable std::atomic<std::uint64_t> registrations{0};
  mutable std::atomic<std::uint64_t> histories{0};

  // A new connection, set up; to the first host that can be used: one that answers and takes
  // writes. With a limit, a call gives up when the server was silent
  // for so long, and the server when it waited a little less for a lock; in whole
  // seconds, rounded up, and two at least. For the user's transactions the URL's
  // read_timeout wins. Throws RetryableError or PermanentError.
  Link connect(Use use, std::optional<std::chrono::milliseconds> limit = std::nullopt) const;
};

// Throws PermanentError for a server that is too old. `version` is what it calls itself,
// `number` its version as 10000 * major + 100 * minor + patch.
void check_version(bool is_mariadb, std::string_view version, unsigned long number,
                   const std::string& where);

// A connection that is made when it is first needed, and reconnects when it was lost.
// Used by one thread at a time. A child made by fork() may destroy it.
class Database {
 public:
  explicit Database(std::shared_ptr<const DatabaseContext> context, Use use = Use::engine)
      : context_(std::move(context)), use_(use) {}
  ~Database() { drop(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const DatabaseContext& context() const { return *context_; }

  // See DatabaseContext::connect(); holds for all connections to come.
  void limit_calls(std::chrono::milliseconds limit) { limit_ = limit; }

  // A statement that waits longer for a lock fails; without it, a little before the
  // call would. Holds for all connections to come.
  void limit_locks(std::chrono::seconds limit) { lock_limit_ = limit; }

  // The server closes a connection that was idle for this long, in whole seconds: one that
  // was stopped in the middle of a transaction does not keep its locks. Holds for all
  // connections to come.
  void limit_idle(std::chrono::milliseconds limit) { idle_limit_ = limit; }

  // A connection that is_old() is re-established when it is next used.
  void stay_young() { stays_young_ = true; }

  // The same, and it must lead to the server that the instance is registered at: else it
  // fails with RetryableError, until that has registered again. The registration must
  // outlive this.
  void belong_to(const Registration& registration) {
    stay_young();
    registration_ = &registration;
  }
  const Registration* registration() const { return registration_; }

  // Called with every connection to come, before anything is done on it.
  void on_connect(std::function<void(MYSQL*)> callback) { on_connect_ = std::move(callback); }

  // Connects if need be. True if that made a new connection.
  bool ensure_connected();

  // Connected, unless the connection was lost since.
  Session& session() {
    ensure_connected();
    return *session_;
  }

  // How many connections were made so far. What was learned by another one than the last may
  // be of another history; see History.
  std::uint64_t connections() const { return connections_; }

  // Of the server that it is connected to.
  const Facts& facts() const { return link_.facts; }

  // Whether somebody has registered, or found another history, since it was made; see
  // DatabaseContext::registrations.
  bool is_old() const { return made_at_ != newest(); }

  // It is what has registered, or found it.
  void is_new_enough() { made_at_ = newest(); }

  // Null if there is no connection.
  MYSQL* handle() const { return link_.handle.get(); }

  // Whether there is no connection, or one that is known to be of no use any more.
  bool lost() const { return !session_ || session_->broken(); }

  // Whether there is a connection that the server has not closed, as far as can be
  // told without asking it.
  bool healthy() const;

  // The last error on the connection; its number is 0 if there was none, or no connection.
  // Does not connect.
  Failure last_failure() const { return session_ ? session_->last_failure() : Failure{}; }

  // What a pool asks: whether one that comes back may be lent again, and whether one that has
  // lain idle still may be.
  bool make_ready() const;
  bool may_be_lent() const { return healthy() && !is_old(); }

  // Closes the connection; the next call makes another one.
  void drop() noexcept;

  template <class... Args>
  Result run(const Sql& sql, const Args&... args) {
    return session().run(sql, args...);
  }
  Result run(const Built& statement) { return session().run(statement); }

 private:
  void set_up();
  std::uint64_t newest() const {
    return use_ == Use::engine ? context_->registrations : context_->histories;
  }

  const std::shared_ptr<const DatabaseContext> context_;
  const Use use_;
  std::optional<std::chrono::milliseconds> limit_;
  std::optional<std::chrono::seconds> lock_limit_;
  std::optional<std::chrono::milliseconds> idle_limit_;
  std::function<void(MYSQL*)> on_connect_;
  bool stays_young_ = false;
  const Registration* registration_ = nullptr;
  Link link_;
  std::optional<Session> session_;  // on link_
  std::uint64_t connections_ = 0;
  std::uint64_t made_at_ = 0;  // newest() at that time
};

// Lends connected ones. A connection that was lost, or that comes back in the middle
// of something, is closed.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `limit`: how long the server may take for a statement; 0: no limit. `on_open` is called with each
// new connection.
std::shared_ptr<Pool> make_pool(const std::shared_ptr<const DatabaseContext>& context, Use use,
                                PoolLimits limits, std::chrono::milliseconds limit,
                                std::function<void(MYSQL*)> on_open = {});

// --- Transactions of the library's own, their repetition, and statements that are not too long ---

// Runs work() in a transaction on the session.
template <class Work>
auto in_transaction(Session& session, const Work& work) {
  session.run_text("START TRANSACTION", "begin a transaction");
  try {
    auto result = work();
    session.run_text("COMMIT", "commit a transaction");
    return result;
  } catch (...) {
    if (!session.broken()) session.try_text("ROLLBACK");
    throw;
  }
}

// Runs work(), which is a statement or a transaction, and again if the server chose it
// for the victim of a deadlock: then nothing of it has happened.
template <class Work>
auto retry_on_deadlock(Database& database, const Work& work) {
  constexpr int kTimes = 5;
  for (int left = kTimes;; --left) {
    try {
      return work();
    } catch (const RetryableError&) {
      const bool deadlock = database.last_failure().number == ER_LOCK_DEADLOCK;
      if (!deadlock || left == 1) throw;
    }
  }
}

// Of a statement without what depends on its values, at most.
inline constexpr std::size_t kStatementBytes = 4'096;

// How many bytes the values of a statement may take: what the server admits, but no more
// than a few MiB, because others wait meanwhile.
inline std::size_t value_bytes(const Session& session) {
  constexpr std::size_t kMany = 4 << 20;
  return std::min(session.max_packet(), kMany) - std::min(session.max_packet(), kStatementBytes);
}

// Calls work(part) for one part of the rows after the other, each of which fits into a
// statement as a list of numbers; and the optimizer of MariaDB passes over an index for
// lists of more than some thousand.
template <class T, class Work>
void in_portions(const Session& session, std::span<const T> rows, const Work& work) {
  constexpr std::size_t kMost = 5'000;
  constexpr std::size_t kNumberBytes = 21;
  const std::size_t size = std::clamp<std::size_t>(value_bytes(session) / kNumberBytes, 1, kMost);
  while (!rows.empty()) {
    const std::span<const T> part = rows.first(std::min(size, rows.size()));
    rows = rows.subspan(part.size());
    work(part);
  }
}

}  // namespace outbox::mysql
