#include "client/redis/connect_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/percent.h"
#include "base/url_scheme.h"
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

std::string decoded(std::string_view text) {
  std::optional<std::string> result = percent_decoded(text);
  if (!result || result->find('\0') != std::string::npos) refuse_url();
  return *std::move(result);
}

int parse_number(std::string_view text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most) refuse_url();
  return value;
}

int parse_database(std::string_view text) {
  constexpr int kMost = 1'000'000;
  return text.empty() ? 0 : parse_number(text, 0, kMost);
}

// Takes off what stands before the @, if there is one. An @ in a password that should
// have been written as %40 must not make a part of it pass for a host, which is shown.
void take_login(std::string_view& authority, ConnectOptions& target) {
  const auto at = authority.find('@');
  if (at == authority.npos) return;
  const std::string_view login = authority.substr(0, at);
  authority.remove_prefix(at + 1);
  if (authority.find('@') != authority.npos) refuse_url();
  const auto colon = login.find(':');
  if (colon != 0) target.user = decoded(login.substr(0, colon));
  if (colon != login.npos) target.password = decoded(login.substr(colon + 1));
}

void parse_host(std::string_view text, ConnectOptions& target) {
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == text.npos) refuse_url();
    target.host = decoded(text.substr(1, end - 1));
    port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') refuse_url();
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    target.host = decoded(text.substr(0, colon));
    port = text.substr(colon);
  }
  if (target.host.empty()) target.host = "localhost";
  target.port = port.empty() ? kDefaultPort : parse_number(port.substr(1), 1, 65'535);
}

void parse_tcp(std::string_view rest, ConnectOptions& target) {
  constexpr std::string_view kBegin = "://";
  if (!rest.starts_with(kBegin)) refuse_url();
  rest.remove_prefix(kBegin.size());
  if (rest.find_first_of("?#") != rest.npos) refuse_url();
  const auto slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  if (slash < rest.size()) target.database = parse_database(rest.substr(slash + 1));
  take_login(authority, target);
  parse_host(authority, target);
}

void parse_unix(std::string_view rest, ConnectOptions& target) {
  rest.remove_prefix(1);  // the colon
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    const auto slash = std::min(rest.find('/'), rest.size());
    std::string_view authority = rest.substr(0, slash);
    rest.remove_prefix(slash);
    take_login(authority, target);
    if (!authority.empty()) refuse_url();
  }
  const auto query = std::min(rest.find('?'), rest.size());
  const std::string_view path = rest.substr(0, query);
  rest.remove_prefix(query);
  // As above: what follows an @ may be a part of a password.
  if (!path.starts_with('/') || path.find_first_of("@#") != path.npos) refuse_url();
  target.socket = decoded(path);
  constexpr std::string_view kDatabase = "?db=";
  if (rest.empty()) return;
  if (!rest.starts_with(kDatabase)) refuse_url();
  target.database = parse_database(rest.substr(kDatabase.size()));
}

}  // namespace

ConnectOptions ConnectOptions::parse(const std::string& url) {
  const std::string scheme = scheme_of(url);
  const std::string_view rest = std::string_view(url).substr(scheme.size());
  ConnectOptions target;
  if (scheme == "redis" || scheme == "rediss") {
    target.tls = scheme == "rediss";
    parse_tcp(rest, target);
  } else if (scheme == "unix") {
    parse_unix(rest, target);
  } else {
    refuse_url();
  }
  // Redis would take it for the name of the user.
  if (target.user && !target.password) {
    throw MisuseError(
        "the Redis URL names a user and no password: write USER:PASSWORD@HOST, or "
        "USER:@HOST for a user without one");
  }
  return target;
}

std::string ConnectOptions::place() const {
  const std::string server = socket.empty() ? host + ':' + std::to_string(port) : socket;
  return server + '/' + std::to_string(database);
}

}  // namespace outbox::redis
