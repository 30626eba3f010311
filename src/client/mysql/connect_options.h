// Where the database is.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/mysql/libmariadb.h"

namespace outbox::mysql {

// An impostor may ask for the password itself (as servers with PAM do): only the last
// two make sure that it is the server.
enum class SslMode {
  disabled,
  preferred,        // encrypted if the server can
  required,         // encrypted
  verify_ca,        // to a server whose certificate the CA has signed
  verify_identity,  // and that is issued for the host's name
};

// What a URL says:
//
//   mysql://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTION=VALUE&...
//
// with %XX for special characters; `mariadb://` means the same. Of several hosts the
// first that answers is used. What is left out is localhost, 3306, no database, and the
// user that runs the program; a password also comes from MYSQL_PWD. Options:
//
//   socket                                   a Unix socket, in place of the hosts
//   ssl_mode                                 see SslMode; `preferred`, or
//                                            `verify_identity` if there is a CA
//   ssl_ca, ssl_capath, ssl_crl              what the server's certificate is verified with
//   ssl_cert, ssl_key                        the client's own
//   ssl_cipher, tls_version                  lists of what is allowed
//   connect_timeout                          in seconds; 10
//   read_timeout, write_timeout              how long the network may be silent during a
//                                            call of a transaction, in seconds; see
//                                            Options::statement_timeout
//   plugin_dir                               of the plugins that log in
struct Settings {
  struct Host {
    std::string name;
    unsigned port;
  };

  // Throws MisuseError if the URL is not understood; the message shows nothing of it but
  // the names of options, for it may hold a password.
  static Settings parse(const std::string& url);

  std::string scheme{};
  std::optional<std::string> user{};
  std::optional<std::string> password{};
  std::vector<Host> hosts{};
  std::string database{};
  std::string socket{};
  SslMode ssl_mode = SslMode::preferred;
  std::chrono::seconds connect_timeout{10};
  std::chrono::seconds read_timeout{0};  // 0: none
  std::chrono::seconds write_timeout{0};
  std::map<std::string, std::string> files_and_lists{};  // the options that stay texts
};

// A database, and the way to it. Thread-safe.
class ConnectOptions {
 public:
  // Throws as Settings::parse() does.
  explicit ConnectOptions(const std::string& url);

  // For messages: "host:port/database", several if there are several.
  const std::string& place() const { return place_; }

  // A URL with the same settings, but for the password.
  const std::string& public_url() const { return public_url_; }

  // What the URL says of it, if anything.
  std::optional<std::chrono::seconds> read_timeout() const {
    const auto timeout = settings_.read_timeout;
    return timeout.count() > 0 ? std::optional(timeout) : std::nullopt;
  }

  // Connects, with a limit to how long the server may be silent in any call, or without.
  // `accept` is called with each connection that was made; if it throws RetryableError,
  // the next host is tried. Throws RetryableError or PermanentError.
  ConnectionHandle connect(std::optional<std::chrono::seconds> silence,
                           const std::function<void(MYSQL*)>& accept) const;

 private:
  const Settings settings_;
  const std::string place_;
  const std::string public_url_;
};

}  // namespace outbox::mysql
