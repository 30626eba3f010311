// Where the database is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/postgres/libpq.h"

namespace outbox::postgres {

// A URL or list of settings, taken apart and completed with what a service wants:
// UTF-8, dead peers noticed, and of several hosts the one that takes writes.
class ConnectOptions {
 public:
  // Throws MisuseError if libpq does not understand the text; the message shows
  // nothing of it, for it may hold a password.
  explicit ConnectOptions(const std::string& url);

  // For messages: "host:port/database", several if there are several.
  const std::string& place() const { return place_; }

  // A URL with the same settings, but for the secrets.
  const std::string& public_url() const { return public_url_; }

  // Of several hosts, which one is meant.
  enum class Server : std::uint8_t {
    as_wished,   // by the URL; if it says nothing, one that takes writes
    primary,     // none that follows another one
    read_write,  // nor one whose sessions are set not to write
  };

  // Whether the URL says which one.
  bool has_wish() const { return has_wish_; }

  // Waits until the connection is made or has failed: check PQstatus().
  ConnectionHandle connect(Server server = Server::as_wished) const;

 private:
  std::vector<std::string> keywords_;
  std::vector<std::string> values_;
  bool has_wish_ = false;
  std::string place_;
  std::string public_url_;
};

}  // namespace outbox::postgres
