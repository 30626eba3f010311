// A database, connections of the library's own to it, and pools of them.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/connection_pool.h"
#include "base/mutex.h"
#include "base/sql_text.h"
#include "client/postgres/connect_options.h"
#include "client/postgres/libpq.h"
#include "client/postgres/session.h"
#include "client/postgres/settings.h"
#include "model/registration.h"

namespace outbox::postgres {

// Tells the server to stop what it does for connections that were given up, and closes
// them: a server process that waits for a lock does not notice that its client is gone.
// libpq waits for the server's answer to that without a limit, so it is done by a thread
// that lives while there is work; if the server is frozen, it hangs there alone.
// Thread-safe.
class Canceller {
 public:
  ~Canceller();
  Canceller() = default;
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;

  // Does not wait.
  void give_up(ConnectionHandle connection) noexcept;

 private:
  struct Work {
    Mutex mutex;
    CondVar ended;
    std::deque<ConnectionHandle> waiting OUTBOX_GUARDED_BY(mutex);
    bool at_work OUTBOX_GUARDED_BY(mutex) = false;
  };

  static void run(const std::shared_ptr<Work>& work) noexcept;

  const pid_t pid_ = getpid();  // in a child made by fork() there is no such thread
  const std::shared_ptr<Work> work_ = std::make_shared<Work>();
};

// Which past a server has: a standby that is promoted begins another timeline.
inline constexpr Sql kTimeline{"read the timeline", R"sql(
SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)
)sql",
                               false};

// The address that a connection was made with.
std::string place_of(PGconn* connection);

// What the connections to a database have learnt of its server. Thread-safe.
struct ServerKnowledge {
  Reconnection reconnection{};
  Canceller canceller{};

  // How many times an instance has started over. Connections that are older may lead to
  // another server than the one where it is registered now.
  std::atomic<std::uint64_t> new_starts{0};

  // Whether the server tells which timeline it is on, as the last instance that asked knows.
  std::atomic<bool> tells_history{false};
};

// The way to a database. Its connections keep it alive. A copy shares what is known of the server.
// Constant once it is in use; thread-safe.
struct DatabaseContext : ConnectionContext {
  explicit DatabaseContext(const std::string& url) : target(url) {}

  const ConnectOptions target;
  const std::shared_ptr<ServerKnowledge> server = std::make_shared<ServerKnowledge>();

  // A new connection. Throws RetryableError or PermanentError.
  ConnectionHandle connect(Use use) const;
};

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

  // For all connections to come: see Session::limit_calls(), and how long a statement waits
  // for a lock. The server keeps to them too.
  void limit_calls(std::chrono::milliseconds limit) { limits_.call = limit; }
  void limit_locks(std::chrono::milliseconds limit) { limits_.lock = limit; }

  // From the next connection on, kept statements go by the indexes whatever the table
  // looked like when they were planned: one that was planned on an empty table would
  // read all of it for as long as the server keeps that plan, and the table grows
  // sooner. See session_settings().
  void go_by_index_alone() { by_index_alone_ = true; }

  // Connections to a server with another history than the registration's are refused.
  void hold_to(const Registration& registration) { registration_ = &registration; }

  // Called with every connection to come, before anything is done on it.
  void on_connect(std::function<void(PGconn*)> callback) { on_connect_ = std::move(callback); }

  // Connects if need be. True if that made a new connection.
  bool ensure_connected();

  // How many connections it has had.
  std::uint64_t connections() const { return connections_; }

  // Connected, unless the connection was lost since.
  Session& session() {
    ensure_connected();
    return *session_;
  }

  // Null if there is no connection.
  PGconn* handle() const { return connection_.get(); }

  // Whether there is no connection, or one that is known to be of no use any more.
  bool lost() const { return !session_ || session_->broken(); }

  // Whether the connection may lead to another server than is meant: an instance has started
  // over since it was made, or the server has refused to write.
  bool outdated() const;

  // Whether there is a connection that the server has not closed, as far as can be
  // told without asking it, and that is not outdated.
  bool healthy() const;

  // What a pool asks: whether one that comes back may be lent again, and whether one that has
  // lain idle still may be.
  bool make_ready() const;
  bool may_be_lent() const { return healthy(); }

  // Closes the connection; the next call makes another one.
  void drop() noexcept;

  template <class... Args>
  Result run(const Sql& sql, const Args&... args) {
    return session().run(sql, args...);
  }

 private:
  void set_up();
  void check_history();

  const std::shared_ptr<const DatabaseContext> context_;
  const Use use_;
  Limits limits_;
  bool by_index_alone_ = false;
  std::uint64_t connections_ = 0;
  std::uint64_t made_at_ = 0;  // ServerKnowledge::new_starts
  const Registration* registration_ = nullptr;
  std::function<void(PGconn*)> on_connect_;
  bool server_leaves_ = false;  // it has said so
  ConnectionHandle connection_;
  std::optional<Session> session_;  // on connection_
};

// Lends connected ones. A connection that was lost, or that comes back in the middle
// of something, is closed.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `limit`: how long a statement may take; 0: no limit. `on_open` is called with each new
// connection.
std::shared_ptr<Pool> make_pool(const std::shared_ptr<const DatabaseContext>& context, Use use,
                                PoolLimits limits, std::chrono::milliseconds limit,
                                std::function<void(PGconn*)> on_open = {});

}  // namespace outbox::postgres
