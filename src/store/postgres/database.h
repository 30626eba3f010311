// One connection of the library's own, and pools of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/connection_pool.h"
#include "client/postgres/session.h"
#include "client/postgres/settings.h"
#include "store/postgres/registered_history.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// A connection that is made when it is first needed, and made anew when it was lost.
// Used by one thread at a time. A child made by fork() may destroy it.
class Database {
 public:
  explicit Database(StoreConfigPtr config, Use use = Use::engine)
      : config_(std::move(config)), use_(use) {}
  ~Database() { drop(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const StoreConfig& config() const { return *config_; }

  // For all connections to come: see Session::limit_calls(), and how long a statement waits
  // for a lock. The server keeps to them too.
  void limit_calls(std::chrono::milliseconds limit) { limits_.call = limit; }
  void limit_locks(std::chrono::milliseconds limit) { limits_.lock = limit; }

  // From the next connection on, kept statements go by the indexes whatever the table
  // looked like when they were planned: one that was planned on an empty table would
  // read all of it for as long as the server keeps that plan, and the table grows
  // sooner. See session_settings().
  void go_by_index_alone() { by_index_alone_ = true; }

  // Connections to a server with another past than this are refused.
  void hold_to(const RegisteredHistory& history) { history_ = &history; }

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

  // Whether the connection may lead to another server than is meant: an instance has begun
  // anew since it was made, or the server has refused to write.
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

  const StoreConfigPtr config_;
  const Use use_;
  Limits limits_;
  bool by_index_alone_ = false;
  std::uint64_t connections_ = 0;
  std::uint64_t made_at_ = 0;  // StoreConfig::new_starts
  const RegisteredHistory* history_ = nullptr;
  std::function<void(PGconn*)> on_connect_;
  bool server_leaves_ = false;  // it has said so
  ConnectionHandle connection_;
  std::optional<Session> session_;  // on connection_
};

// Lends connected ones. A connection that was lost, or that comes back in the middle
// of something, is closed.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `hint` ends the error of those who waited in vain: what to do. `limit`: how long a
// statement may take; 0: no limit. `on_open` is called with each new connection.
std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(PGconn*)> on_open = {});

}  // namespace outbox::postgres
