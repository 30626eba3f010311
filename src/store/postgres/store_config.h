// What everything that belongs to one store shares.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/connection_pool.h"
#include "base/process.h"
#include "base/sql_text.h"
#include "client/postgres/canceller.h"
#include "client/postgres/connect_options.h"
#include "client/postgres/session.h"
#include "client/postgres/settings.h"
#include "outbox/clock.h"
#include "outbox/postgres.h"
#include "store/common/known_places.h"
#include "store/postgres/names.h"

namespace outbox::postgres {

// Which database of which server: the same for a server and its standbys.
struct DatabaseId {
  std::int64_t server = 0;
  std::int64_t database = 0;
  bool operator==(const DatabaseId&) const = default;
};

// The address that a connection was made with.
std::string place_of(PGconn* connection);

// The options, resolved, and the place of the database. Connections, instances
// and watches keep it alive, so that they may outlive the store.
//
// Constant once the store is open, but for what is `mutable`; thread-safe.
struct StoreConfig final : SqlContext {
  explicit StoreConfig(const std::string& url) : target(url) {}

  const ConnectOptions target;
  std::string description{};  // for messages
  TableName table{};
  Options options{};      // complete: codec, log and clock are set
  std::string channel{};  // on which commits are told of
  pid_t pid = getpid();

  std::optional<DatabaseId> id{};  // absent if the server does not say
  mutable KnownPlaces places{};    // that lead to it

  mutable Reconnection reconnection{};
  mutable Canceller canceller{};

  // How many times an instance has begun anew. Connections that are older may lead to a
  // server that is not the one any more where it is registered now.
  mutable std::atomic<std::uint64_t> new_starts{0};

  // Whether the server tells which timeline it is on, as the last instance that asked knows.
  mutable std::atomic<bool> tells_history{false};

  // A new connection. Throws RetryableError or PermanentError.
  ConnectionHandle connect(Use use) const;

  const std::string& where() const override { return description; }
  std::string expand(std::string_view text) const override { return postgres::expand(text, table); }
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

}  // namespace outbox::postgres
