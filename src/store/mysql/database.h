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
#include "client/mysql/session.h"
#include "store/mysql/registration.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

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

  // See StoreConfig::connect(); holds for all connections to come.
  void limit_calls(std::chrono::milliseconds limit) { limit_ = limit; }

  // A statement that waited so long for a lock fails; without it, a little before the
  // call would. Holds for all connections to come.
  void limit_locks(std::chrono::seconds limit) { lock_limit_ = limit; }

  // The server closes a connection that was idle for so long, in whole seconds: one that
  // was stopped in the middle of a transaction does not keep its locks. Holds for all
  // connections to come.
  void limit_idle(std::chrono::milliseconds limit) { idle_limit_ = limit; }

  // A connection that is_old() is re-established when it is next used.
  void stay_young() { stays_young_ = true; }

  // The same, and it must lead to the server that the instance is registered at: else it
  // fails with RetryableError, until that has registered anew. The registration must
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
  // StoreConfig::registrations.
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
    return use_ == Use::engine ? config_->registrations : config_->histories;
  }

  const StoreConfigPtr config_;
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

// `hint` ends the error of those who waited in vain: what to do. `limit`: how long the server
// may take for a statement; 0: no limit. `on_open` is called with each new connection.
std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(MYSQL*)> on_open = {});

}  // namespace outbox::mysql
