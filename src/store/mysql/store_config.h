// What everything that belongs to one store shares.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/connection_pool.h"
#include "base/process.h"
#include "base/sql_text.h"
#include "client/mysql/connect_options.h"
#include "client/mysql/facts.h"
#include "client/mysql/session.h"
#include "outbox/clock.h"
#include "outbox/mysql.h"
#include "store/common/known_places.h"
#include "store/mysql/names.h"

namespace outbox::mysql {

// Who runs statements on a connection of the library's own.
enum class Use {
  // The library alone: UTC, READ COMMITTED (claims must not lock what they pass over),
  // a strict SQL mode, and the rest of session_settings.h.
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

// The options, resolved, and the place of the database. Connections, instances
// and watches keep it alive, so that they may outlive the store.
//
// Constant once the store is open, but for what is mutable; thread-safe.
struct StoreConfig final : SqlContext {
  explicit StoreConfig(const std::string& url) : target(url) {}

  const ConnectOptions target;
  std::string description{};  // for messages
  TableName table{};
  Options options{};  // complete: codec, log and clock are set
  pid_t pid = getpid();

  // When the tables were made, which tells them from those of other databases: the
  // same on every node of a cluster and every replica.
  std::string born{};
  mutable KnownPlaces places{};  // that lead to them

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

  const std::string& where() const override { return description; }
  std::string expand(std::string_view text) const override { return mysql::expand(text, table); }
  bool is_about_own_tables(std::string_view message) const override {
    return message.find(table.table) != std::string_view::npos;
  }
  bool may_prepare() const override { return options.prepare; }

  // Throws MisuseError in a child made by fork(): two processes cannot share a
  // connection.
  void check_process() const { check_not_forked(pid, description); }
};

using StoreConfigPtr = std::shared_ptr<const StoreConfig>;

// The store's sessions have its configuration for their context.
inline const StoreConfig& config_of(const Session& session) {
  return static_cast<const StoreConfig&>(session.context());
}

// Throws PermanentError for a server that is too old. `version` is what it calls itself,
// `number` its version as 10000 * major + 100 * minor + patch.
void check_version(bool is_mariadb, std::string_view version, unsigned long number,
                   const std::string& where);

}  // namespace outbox::mysql
