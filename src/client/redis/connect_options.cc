#include "client/redis/connect_options.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/url.h"
#include "outbox/error.h"

namespace outbox::redis {
namespace {

constexpr int kDefaultPort = 6379;

[[noreturn]] void refuse_url() {
  throw MisuseError(
      "the Redis URL cannot be understood: write redis://USER:PASSWORD@HOST:PORT/DATABASE, the "
      "database a number, the same with rediss: for TLS, or "
      "unix://USER:PASSWORD@/PATH?db=DATABASE, with %XX for special characters in names and "
      "passwords");
}

int parse_database(std::string_view text) {
  constexpr int kMost = 1'000'000;
  int value = 0;
  if (text.empty()) return value;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0 || value > kMost) refuse_url();
  return value;
}

Url parse_parts(std::string_view text) {
  std::optional<Url> url = parse_url(text);
  if (!url || url->hosts.size() > 1) refuse_url();
  return *std::move(url);
}

void take_login(Url& url, ConnectOptions& target) {
  target.password = std::move(url.password);
  if (url.user && (!url.user->empty() || !target.password)) target.user = std::move(url.user);
}

void parse_tcp(const std::string& text, ConnectOptions& target) {
  if (text.find_first_of("?#") != std::string::npos) refuse_url();
  Url url = parse_parts(text);
  target.tls = url.scheme == "rediss";
  target.host = url.hosts.front().name.empty() ? "localhost" : url.hosts.front().name;
  target.port = url.hosts.front().port == 0 ? kDefaultPort : url.hosts.front().port;
  target.database = parse_database(url.path);
  take_login(url, target);
}

// With or without the two slashes before the login.
void parse_unix(const std::string& scheme, std::string_view rest, ConnectOptions& target) {
  Url url = parse_parts(scheme + (rest.starts_with("//") ? ":" : "://") + std::string(rest));
  if (!url.hosts.front().name.empty() || url.hosts.front().port != 0 || url.path.empty()) {
    refuse_url();
  }
  target.socket = '/' + url.path;
  if (url.query.size() > 1) refuse_url();
  for (const auto& [name, value] : url.query) {
    if (name != "db") refuse_url();
    target.database = parse_database(value);
  }
  take_login(url, target);
}

}  // namespace

ConnectOptions ConnectOptions::parse(const std::string& url) {
  const std::string scheme = scheme_of(url);
  ConnectOptions target;
  if (scheme == "redis" || scheme == "rediss") {
    parse_tcp(url, target);
  } else if (scheme == "unix") {
    parse_unix(scheme, std::string_view(url).substr(scheme.size() + 1), target);
  } else {
    refuse_url();
  }
  // Redis would take it for the name of the user.
  if (target.user && !target.password) {
    throw MisuseError(
        "the Redis URL names a user but no password: write USER:PASSWORD@HOST, or "
        "USER:@HOST for a user without one");
  }
  return target;
}

std::string ConnectOptions::place() const {
  const std::string server = socket.empty() ? host + ':' + std::to_string(port) : socket;
  return server + '/' + std::to_string(database);
}

}  // namespace outbox::redis
