// What everything that belongs to one store shares.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/process.h"
#include "core/reconnection.h"
#include "outbox/clock.h"
#include "outbox/postgres.h"
#include "store/postgres/canceller.h"
#include "store/postgres/names.h"
#include "store/postgres/settings.h"
#include "store/postgres/target.h"

namespace outbox::postgres {

// The options, resolved, and the place of the database. Connections, instances
// and watches keep it alive, so that they may outlive the store.
//
// Constant once the store is open, but for what is `mutable`; thread-safe.
struct Environment {
  explicit Environment(const std::string& url) : target(url) {}

  const Target target;
  std::string description{};  // for messages
  TableName table{};
  Options options{};      // complete: codec, log and clock are set
  std::string channel{};  // on which commits are told of
  pid_t pid = getpid();

  mutable Reconnection reconnection{};
  mutable Canceller canceller{};

  // How many times an instance has begun anew. Connections that are older may lead to a
  // server that is not the one any more where it is registered now.
  mutable std::atomic<std::uint64_t> new_starts{0};

  // Whether the server tells which timeline it is on, as the last instance that asked knows.
  mutable std::atomic<bool> tells_history{false};

  // A new connection. Throws RetryableError or PermanentError.
  ConnectionHandle connect(Use use) const;

  // Throws MisuseError in a child made by fork(): two processes cannot share a
  // connection.
  void check_process() const { check_not_forked(pid, description); }
};

using EnvironmentPtr = std::shared_ptr<const Environment>;

}  // namespace outbox::postgres
