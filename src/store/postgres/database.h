// One connection of the library's own.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "store/postgres/environment.h"
#include "store/postgres/session.h"

namespace outbox::postgres {

// A connection that is made when it is first needed, and made anew when it was lost.
// Used by one thread at a time. A child made by fork() may destroy it.
class Database {
 public:
  explicit Database(EnvironmentPtr environment) : environment_(std::move(environment)) {}
  ~Database() { drop(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const Environment& environment() const { return *environment_; }

  // See Session::limit_calls(); holds for all connections to come.
  void limit_calls(std::chrono::milliseconds limit) { limit_ = limit; }

  // From the next connection on, kept statements go by the indexes whatever the table
  // looked like when they were planned: one that was planned on an empty table would
  // read all of it for as long as the server keeps that plan, and the table grows
  // sooner. See sql::kByIndexAlone.
  void go_by_index_alone() { by_index_alone_ = true; }

  // Connects if need be. True if that made a new connection.
  bool ensure_connected();

  // Connected, unless the connection was lost since.
  Session& session() {
    ensure_connected();
    return *session_;
  }

  // Null if there is no connection.
  PGconn* handle() const { return connection_.get(); }

  // Whether there is no connection, or one that is known to be of no use any more.
  bool lost() const { return !session_ || session_->broken(); }

  // Whether there is a connection that the server has not closed, as far as can be
  // told without asking it.
  bool healthy() const;

  // Closes the connection; the next call makes another one.
  void drop() noexcept;

  template <class... Args>
  Result run(const Sql& sql, const Args&... args) {
    return session().run(sql, args...);
  }

 private:
  const EnvironmentPtr environment_;
  std::optional<std::chrono::milliseconds> limit_;
  bool by_index_alone_ = false;
  ConnectionHandle connection_;
  std::optional<Session> session_;  // on connection_
};

}  // namespace outbox::postgres
