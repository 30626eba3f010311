// Connections to one server, made when they are needed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/connection_pool.h"
#include "client/redis/connect_options.h"
#include "client/redis/connection.h"
#include "outbox/log.h"

namespace outbox::redis {

struct ClientOptions {
  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{5'000};
  Timeouts timeouts{};
  TlsSettings tls{};  // for a target that asks for TLS
  Logger log{};       // not empty
};

// A pool of connections. A server that is unreachable is asked again with pauses that grow; in
// between callers are told at once. Thread-safe. After fork() the child must not use it.
class Client {
 public:
  // Throws MisuseError for invalid options. Does not connect yet.
  Client(ConnectOptions target, ClientOptions options);

  using Handle = ConnectionPool<Connection>::Handle;

  // Throws UnavailableError or PermanentError; MisuseError after fork().
  Handle take();

  // For messages.
  const std::string& place() const { return place_; }

 private:
  struct Link;

  const std::string place_;
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<ConnectionPool<Connection>> pool_;
};

}  // namespace outbox::redis
