// What everything that belongs to one store shares.
#pragma once

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "outbox/clock.h"
#include "outbox/postgres.h"
#include "store/postgres/names.h"
#include "store/postgres/target.h"

namespace outbox::postgres {

// How often a server that is away is asked: at once after it was there, then with
// pauses that double up to some seconds, each a little different. In between
// callers are told what the last attempt was told. Thread-safe.
class Reconnection {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // Throws RetryableError while it is too early.
  void check(Instant now) OUTBOX_EXCLUDES(mutex_);
  void failed(const std::string& why, Instant now) OUTBOX_EXCLUDES(mutex_);
  void succeeded() OUTBOX_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::chrono::milliseconds pause_ OUTBOX_GUARDED_BY(mutex_){0};
  Instant next_ OUTBOX_GUARDED_BY(mutex_){};
  std::string why_ OUTBOX_GUARDED_BY(mutex_);
};

// The options, resolved, and the place of the database. Connections, instances
// and watches keep it alive, so that they may outlive the store.
//
// Constant once the store is open, but for `reconnection`; thread-safe.
struct Environment {
  explicit Environment(const std::string& url) : target(url) {}

  const Target target;
  std::string description{};  // for messages
  TableName table{};
  Options options{};      // complete: codec, log and clock are set
  std::string channel{};  // on which commits are told of
  pid_t pid = getpid();

  mutable Reconnection reconnection{};

  // A new connection, set up. Throws RetryableError or PermanentError.
  ConnectionHandle connect() const;

  // Throws MisuseError in a child made by fork(): two processes cannot share a
  // connection.
  void check_process() const;
};

using EnvironmentPtr = std::shared_ptr<const Environment>;

}  // namespace outbox::postgres
