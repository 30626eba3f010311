#include "client/mysql/connect_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "base/url.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

using std::chrono::seconds;

constexpr unsigned kDefaultPort = 3306;

constexpr std::pair<std::string_view, SslMode> kSslModes[] = {
    {"disabled", SslMode::disabled},
    {"preferred", SslMode::preferred},
    {"required", SslMode::required},
    {"verify_ca", SslMode::verify_ca},
    {"verify_identity", SslMode::verify_identity},
};

constexpr std::pair<std::string_view, mysql_option> kFilesAndLists[] = {
    {"ssl_ca", MYSQL_OPT_SSL_CA},
    {"ssl_capath", MYSQL_OPT_SSL_CAPATH},
    {"ssl_crl", MYSQL_OPT_SSL_CRL},
    {"ssl_cert", MYSQL_OPT_SSL_CERT},
    {"ssl_key", MYSQL_OPT_SSL_KEY},
    {"ssl_cipher", MYSQL_OPT_SSL_CIPHER},
    {"tls_version", MARIADB_OPT_TLS_VERSION},
    {"plugin_dir", MYSQL_PLUGIN_DIR},
};

[[noreturn]] void refuse_url() {
  throw MisuseError(
      "the MySQL URL cannot be understood: write "
      "mysql://USER:PASSWORD@HOST:PORT/DATABASE?ssl_mode=..., with %XX for special characters in "
      "names and passwords");
}

[[noreturn]] void refuse_option(std::string_view name, std::string_view problem) {
  throw MisuseError("the option " + quote(name) + " of the MySQL URL " + std::string(problem));
}

// MySQL's own programs write ssl-mode=VERIFY_CA.
std::string normalized(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

template <class Table>
auto find_in(const Table& table, std::string_view name) {
  return std::find_if(std::begin(table), std::end(table),
                      [&](const auto& entry) { return entry.first == name; });
}

std::string_view name_of(SslMode mode) {
  const auto* found = std::find_if(std::begin(kSslModes), std::end(kSslModes),
                                   [&](const auto& entry) { return entry.second == mode; });
  return found->first;
}

seconds parse_seconds(std::string_view name, const std::string& text) {
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  constexpr unsigned kDay = 86'400;
  if (parsed.ec != std::errc() || parsed.ptr != end || value > kDay) {
    refuse_option(name, "is " + quote(text) + ": it takes seconds, from 0 (no limit) to 86400");
  }
  return seconds{value};
}

SslMode parse_ssl_mode(std::string_view name, const std::string& text) {
  const auto* found = find_in(kSslModes, normalized(text));
  if (found == std::end(kSslModes)) {
    refuse_option(name, "is " + quote(text) +
                            ": it takes disabled, preferred, required, verify_ca or "
                            "verify_identity");
  }
  return found->second;
}

void parse_option(Settings& settings, std::optional<SslMode>& ssl_mode, std::string_view name,
                  const std::string& value) {
  const std::string known = normalized(name);
  if (known == "ssl_mode") {
    ssl_mode = parse_ssl_mode(name, value);
  } else if (known == "socket") {
    settings.socket = value;
  } else if (known == "connect_timeout") {
    settings.connect_timeout = parse_seconds(name, value);
  } else if (known == "read_timeout") {
    settings.read_timeout = parse_seconds(name, value);
  } else if (known == "write_timeout") {
    settings.write_timeout = parse_seconds(name, value);
  } else if (find_in(kFilesAndLists, known) != std::end(kFilesAndLists)) {
    settings.files_and_lists[known] = value;
  } else {
    refuse_option(name,
                  "is unknown; there are socket, ssl_mode, ssl_ca, ssl_capath, ssl_crl, ssl_cert, "
                  "ssl_key, ssl_cipher, tls_version, connect_timeout, read_timeout, "
                  "write_timeout and plugin_dir");
  }
}

// A named CA means that the server is to be verified with it, not only if somebody thinks of
// ssl_mode as well.
SslMode choose_ssl_mode(const std::optional<SslMode>& wanted, const Settings& settings) {
  const bool has_ca = settings.files_and_lists.contains("ssl_ca") ||
                      settings.files_and_lists.contains("ssl_capath");
  const SslMode mode = wanted.value_or(has_ca ? SslMode::verify_identity : SslMode::preferred);
  if (has_ca && mode < SslMode::verify_ca) {
    refuse_option("ssl_ca", "does nothing with ssl_mode=" + std::string(name_of(mode)) +
                                "; use verify_ca or verify_identity, or leave it out");
  }
  if (mode == SslMode::verify_ca && !has_ca) {
    refuse_option("ssl_mode", "is verify_ca, which needs ssl_ca or ssl_capath");
  }
  return mode;
}

std::string shown(const Settings::Host& host) {
  const bool is_number = host.name.find(':') != std::string::npos;
  const std::string name = is_number ? "[" + host.name + "]" : host.name;
  return host.port == kDefaultPort ? name : name + ":" + std::to_string(host.port);
}

std::string shown_hosts(const Settings& settings) {
  std::string text;
  for (const Settings::Host& host : settings.hosts) {
    text.append(text.empty() ? "" : ",").append(shown(host));
  }
  return text;
}

std::string describe(const Settings& settings) {
  const std::string where = settings.socket.empty() ? shown_hosts(settings) : settings.socket;
  return settings.database.empty() ? where : where + "/" + settings.database;
}

std::string without_password(const Settings& settings) {
  std::string url = settings.scheme + "://";
  if (settings.user) url.append(percent_encoded(*settings.user)).append("@");
  url.append(shown_hosts(settings));
  if (!settings.database.empty()) url.append("/").append(percent_encoded(settings.database));
  char separator = '?';
  const auto add = [&](std::string_view name, std::string_view value) {
    url.append(1, separator).append(name).append("=").append(percent_encoded(value));
    separator = '&';
  };
  const Settings defaults;
  if (!settings.socket.empty()) add("socket", settings.socket);
  if (settings.ssl_mode != defaults.ssl_mode) add("ssl_mode", name_of(settings.ssl_mode));
  for (const auto& [name, value] : settings.files_and_lists) add(name, value);
  const auto add_timeout = [&](std::string_view name, seconds Settings::*timeout) {
    if (settings.*timeout != defaults.*timeout) {
      add(name, std::to_string((settings.*timeout).count()));
    }
  };
  add_timeout("connect_timeout", &Settings::connect_timeout);
  add_timeout("read_timeout", &Settings::read_timeout);
  add_timeout("write_timeout", &Settings::write_timeout);
  return url;
}

void set_timeout(MYSQL* connection, mysql_option option, seconds timeout) {
  const auto value = static_cast<unsigned>(timeout.count());
  mysql_optionsv(connection, option, &value);
}

void set_flag(MYSQL* connection, mysql_option option, bool on) {
  const my_bool value = on ? 1 : 0;
  mysql_optionsv(connection, option, &value);
}

// Whether the library checks the CA without the host's name, which it does up to 3.3 if
// it is not told to check the certificate, but has a CA. Later ones check both or none.
bool can_verify_ca_alone() { return mysql_get_client_version() < 30'400; }

void set_ssl(MYSQL* connection, const Settings& settings) {
  const SslMode mode = settings.socket.empty() ? settings.ssl_mode : SslMode::disabled;
  const bool verify =
      mode == SslMode::verify_identity || (mode == SslMode::verify_ca && !can_verify_ca_alone());
  set_flag(connection, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, verify);
  set_flag(connection, MYSQL_OPT_SSL_ENFORCE, mode != SslMode::disabled);
}

// To the library, MYSQL_OPT_SSL_ENFORCE is a wish.
void check_ssl(MYSQL* connection, const Settings& settings, const std::string& where) {
  if (!settings.socket.empty() || settings.ssl_mode <= SslMode::preferred) return;
  if (mysql_get_ssl_cipher(connection) != nullptr) return;
  throw PermanentError("cannot connect (" + where +
                       "): the server offers no TLS, and ssl_mode is " +
                       std::string(name_of(settings.ssl_mode)) +
                       "; set it up on the server, or choose another ssl_mode");
}

// A server that vanished is noticed within half a minute, not after hours.
void notice_dead_peers(MYSQL* connection) {
  const auto set = [&](int option, int value) {
    setsockopt(mysql_get_socket(connection), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 15);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 30'000);
}

const char* c_str_or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

ConnectionHandle connect_to(const Settings::Host& host, const Settings& settings, seconds silence,
                            const std::string& where) {
  ConnectionHandle connection(mysql_init(nullptr));
  if (!connection) throw RetryableError("out of memory for a connection");
  MYSQL* handle = connection.get();
  for (const auto& [name, value] : settings.files_and_lists) {
    mysql_optionsv(handle, find_in(kFilesAndLists, name)->second, value.c_str());
  }
  set_ssl(handle, settings);
  set_timeout(handle, MYSQL_OPT_CONNECT_TIMEOUT, settings.connect_timeout);
  set_timeout(handle, MYSQL_OPT_READ_TIMEOUT, silence);
  set_timeout(handle, MYSQL_OPT_WRITE_TIMEOUT,
              settings.write_timeout.count() > 0 ? settings.write_timeout : silence);
  mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  mysql_optionsv(handle, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "outbox");
  // A server could ask for any file of the client's.
  const unsigned no_files = 0;
  mysql_optionsv(handle, MYSQL_OPT_LOCAL_INFILE, &no_files);
  set_flag(handle, MYSQL_OPT_RECONNECT, false);
  // Without it "localhost" would mean a socket.
  const unsigned protocol = settings.socket.empty() ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET;
  mysql_optionsv(handle, MYSQL_OPT_PROTOCOL, &protocol);
  // A host would win over a socket.
  const char* host_name = settings.socket.empty() ? host.name.c_str() : nullptr;
  if (mysql_real_connect(handle, host_name, settings.user ? settings.user->c_str() : nullptr,
                         settings.password ? settings.password->c_str() : nullptr,
                         c_str_or_null(settings.database), host.port,
                         c_str_or_null(settings.socket), CLIENT_FOUND_ROWS) == nullptr) {
    throw_not_connected(Failure::of(handle), where);
  }
  check_ssl(handle, settings, where);
  if (settings.socket.empty()) notice_dead_peers(handle);
  return connection;
}

}  // namespace

Settings Settings::parse(const std::string& url) {
  std::optional<Url> parts = parse_url(url);
  // A / in a password that should have been written as %2F must not make a part of it pass for
  // the name of a database.
  if (!parts || (parts->scheme != "mysql" && parts->scheme != "mariadb") || parts->has_deep_path) {
    refuse_url();
  }
  Settings settings{.scheme = std::move(parts->scheme),
                    .user = std::move(parts->user),
                    .password = std::move(parts->password),
                    .database = std::move(parts->path)};
  for (Url::Host& host : parts->hosts) {
    settings.hosts.push_back({host.name.empty() ? "localhost" : std::move(host.name),
                              host.port == 0 ? kDefaultPort : static_cast<unsigned>(host.port)});
  }
  std::optional<SslMode> ssl_mode;
  for (const auto& [name, value] : parts->query) parse_option(settings, ssl_mode, name, value);
  settings.ssl_mode = choose_ssl_mode(ssl_mode, settings);
  return settings;
}

ConnectOptions::ConnectOptions(const std::string& url)
    : settings_(Settings::parse(url)),
      place_(describe(settings_)),
      public_url_(without_password(settings_)) {}

ConnectionHandle ConnectOptions::connect(std::optional<seconds> silence,
                                         const std::function<void(MYSQL*)>& accept) const {
  const seconds limit = silence.value_or(settings_.read_timeout);
  const auto connect = [&](const Settings::Host& host) {
    ConnectionHandle connection = connect_to(host, settings_, limit, place_);
    accept(connection.get());
    return connection;
  };
  for (std::size_t i = 0; i + 1 < settings_.hosts.size(); ++i) {
    try {
      return connect(settings_.hosts[i]);
    } catch (const RetryableError&) {
      continue;  // the next one may be up, and ready
    }
  }
  return connect(settings_.hosts.back());
}

}  // namespace outbox::mysql
