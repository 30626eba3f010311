// Where the server is.
#pragma once

#include <optional>
#include <string>

namespace outbox::redis {

// What a URL says:
//
//   redis://[[user]:password@]host[:port][/database]
//   rediss://...                                        the same with TLS
//   unix://[[user]:password@]/path/of/the/socket[?db=database]
//
// with %XX for special characters. What is left out is localhost, 6379, database 0, and
// no login.
struct ConnectOptions {
  // Throws MisuseError if the URL is not understood; the message shows nothing of it, for
  // it may hold a password.
  static ConnectOptions parse(const std::string& url);

  // For messages: "host:port/0" or "/path/of/the/socket/0".
  std::string place() const;

  std::string host{};
  int port = 0;
  bool tls = false;
  std::string socket{};  // in place of the host
  std::optional<std::string> user{};
  std::optional<std::string> password{};
  int database = 0;
};

}  // namespace outbox::redis
