// A consumption tracker in Redis 5 or later, or in Valkey. Needs outbox::redis.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "outbox/consumer/consumption.h"
#include "outbox/export.h"
#include "outbox/log.h"

namespace outbox::redis {

// For a server at rediss://. Files are PEM, and read once, by tracker().
struct Tls {
  // The authorities that may sign the server's certificate. Empty: those that the system trusts.
  std::string ca_file{};

  // The client's certificate, with its chain, and its key without a password, for a server that
  // asks for them; both or neither.
  std::string certificate_file{};
  std::string key_file{};

  // If off, anybody on the network can impersonate the server, and gets the password.
  bool verify = true;
};

struct Options {
  // Every key begins with it: 1 to 64 letters, digits, `_`, `-`, `.`, `:` and `/`. Applications
  // that share a server without sharing records need different ones.
  std::string prefix = "outbox";

  // How many calls talk to the server at once, and how long others wait for their turn.
  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{5'000};

  std::chrono::milliseconds connect_timeout{2'000};  // with the handshake of TLS
  std::chrono::milliseconds timeout{2'000};          // of one answer

  Tls tls{};

  Logger log{};  // empty: standard_error_log()
};

// Records for consumers in any number of processes, under
// `<prefix>:{<group>:<event id>}`, with %XX for special characters.
//
//   redis://[[user]:password@]host[:port][/database]
//   rediss://...                                        the same with TLS
//   unix://[[user]:password@]/path/of/the/socket[?db=database]
//
// with %XX for special characters in names and passwords. With TLS (1.2 or later), the
// server's certificate must be for the host of the URL. Without it, keep to a network that
// you trust.
//
// Every call is one script, which runs atomically, by the server's clock. Records are as safe
// as the server's memory: effects whose records it loses are repeated. A server without
// persistence loses everything with a restart, one with `appendfsync everysec` up to a second, and
// a failover loses what the replica had not received yet. A server that evicts keys to make
// room loses records, too: set `maxmemory-policy noeviction`. Fences grow nevertheless, as long as
// the clocks of the servers agree.
//
// Connects on first use, and again whenever the connection was lost. Throws
// MisuseError for a URL or invalid options. The tracker throws UnavailableError
// while the server is unreachable, loading, out of memory or read-only, and PermanentError if it
// refuses the login, if either side rejects the other's certificate, or if it is a node of a
// Redis Cluster. No message ever shows a password.
//
// Thread-safe. After fork() the child must not use it.
OUTBOX_EXPORT std::shared_ptr<ConsumptionTracker> tracker(const std::string& url,
                                                          TrackerOptions tracking = {},
                                                          Options options = {});

}  // namespace outbox::redis
