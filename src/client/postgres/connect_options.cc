#include "client/postgres/connect_options.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/url.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

// What holds if neither the URL nor the environment says otherwise. A server that
// vanished is noticed within half a minute, not after hours.
constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"fallback_application_name", "outbox"},
    {"client_encoding", "UTF8"},
    {"connect_timeout", "10"},
    {"keepalives_idle", "15"},
    {"keepalives_interval", "5"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "30000"},
    {"target_session_attrs", "read-write"},
};

constexpr const char* kWish = "target_session_attrs";

using Parsed = std::unique_ptr<PQconninfoOption, Destroyer<PQconninfoFree>>;

// Whether a URL has an @ or a / in its password that should have been written as %40
// or %2F: libpq takes what follows it for the host or the database, and so would
// messages. Such an @ stands behind the one that ends the login, or behind the first /.
bool password_is_torn(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos || !url.starts_with("postgres")) return false;
  const std::string_view rest = url.substr(scheme + 3);
  const auto login_end = rest.find_first_of("@/");
  if (login_end == std::string_view::npos) return false;
  const auto query = rest.find('?', rest[login_end] == '@' ? login_end : 0);
  const auto last_at = rest.substr(0, query).rfind('@');
  return last_at != std::string_view::npos && last_at != login_end;
}

const char* value_of(const PQconninfoOption* options, std::string_view keyword) {
  for (const auto* option = options; option->keyword != nullptr; ++option) {
    if (keyword != option->keyword) continue;
    if (option->val != nullptr) return option->val;
    return option->envvar != nullptr ? std::getenv(option->envvar) : nullptr;
  }
  return nullptr;
}

// Whether the name of the database is a URL or a list of settings by itself: the server would
// complain of it, and show it.
bool is_nested(const PQconninfoOption* options) {
  const char* name = value_of(options, "dbname");
  return name != nullptr && (std::string_view(name).find("://") != std::string_view::npos ||
                             has_password_setting(name));
}

Parsed parse(const std::string& url) {
  char* complaint = nullptr;
  Parsed parsed(PQconninfoParse(url.c_str(), &complaint));
  PQfreemem(complaint);  // may quote the password
  if (!parsed || password_is_torn(url) || is_nested(parsed.get())) {
    throw MisuseError(
        "the PostgreSQL URL cannot be understood: write "
        "postgresql://USER@HOST:PORT/DATABASE?sslmode=..., with %XX for special characters in "
        "names and passwords, or a list of settings such as \"host=... dbname=...\"");
  }
  return parsed;
}

std::string or_else(const char* value, const char* fallback) {
  return value != nullptr && *value != '\0' ? value : fallback;
}

std::string describe(const PQconninfoOption* options) {
  const char* host = value_of(options, "host");
  const std::string hosts = or_else(host, or_else(value_of(options, "hostaddr"), "local").c_str());
  const std::string database =
      or_else(value_of(options, "dbname"), or_else(value_of(options, "user"), "default").c_str());
  return hosts + ":" + or_else(value_of(options, "port"), "5432") + "/" + database;
}

// libpq's own update for what must not be shown.
bool is_secret(const PQconninfoOption& option) {
  return option.dispchar != nullptr && *option.dispchar == '*';
}

std::string without_secrets(const PQconninfoOption* options) {
  std::string user;
  std::string host;
  std::string port;
  std::string database;
  std::string rest;
  const auto add = [&](std::string_view keyword, std::string_view value) {
    rest.append(rest.empty() ? "?" : "&")
        .append(keyword)
        .append("=")
        .append(percent_encoded(value));
  };
  for (const auto* option = options; option->keyword != nullptr; ++option) {
    if (option->val == nullptr || is_secret(*option)) continue;
    const std::string_view keyword = option->keyword;
    if (keyword == "user") {
      user = percent_encoded(option->val) + "@";
    } else if (keyword == "host") {
      host = option->val;
    } else if (keyword == "port") {
      port = option->val;
    } else if (keyword == "dbname") {
      database = "/" + percent_encoded(option->val);
    } else {
      add(keyword, option->val);
    }
  }
  // Several hosts, folders of sockets and numbers with colons: there they need no
  // rules of their own.
  if (host.find_first_of(",/:") != std::string::npos) {
    add("host", host);
    if (!port.empty()) add("port", port);
    return "postgresql://" + user + database + rest;
  }
  if (!port.empty()) port.insert(0, ":");
  return "postgresql://" + user + percent_encoded(host) + port + database + rest;
}

}  // namespace

ConnectOptions::ConnectOptions(const std::string& url) {
  const Parsed options = parse(url);
  const auto add = [&](const char* keyword, const char* value) {
    keywords_.emplace_back(keyword);
    values_.emplace_back(value);
  };
  for (const auto* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) add(option->keyword, option->val);
  }
  for (const auto& [keyword, value] : kDefaults) {
    if (value_of(options.get(), keyword) == nullptr) add(keyword, value);
  }
  has_wish_ = value_of(options.get(), kWish) != nullptr;
  place_ = describe(options.get());
  public_url_ = without_secrets(options.get());
}

ConnectionHandle ConnectOptions::connect(Server server) const {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (std::size_t i = 0; i < keywords_.size(); ++i) {
    keywords.push_back(keywords_[i].c_str());
    values.push_back(values_[i].c_str());
  }
  // What stands last counts.
  if (server != Server::as_wished) {
    keywords.push_back(kWish);
    values.push_back(server == Server::primary ? "primary" : "read-write");
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  ConnectionHandle connection(PQconnectdbParams(keywords.data(), values.data(), 0));
  if (!connection) throw RetryableError("out of memory for a connection");
  return connection;
}

}  // namespace outbox::postgres
