#include "store/postgres/store_config.h"

#include <chrono>
#include <string>
#include <string_view>

#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

constexpr int kOldestServer = 130'000;

void check_server(PGconn* connection, const std::string& where) {
  const int version = PQserverVersion(connection);
  if (version < kOldestServer) {
    throw PermanentError("the server is PostgreSQL " + std::to_string(version / 10'000) + " (" +
                         where + "); this library needs 13 or later");
  }
  const char* encoding = PQparameterStatus(connection, "server_encoding");
  if (encoding != nullptr && std::string_view(encoding) != "UTF8") {
    throw PermanentError("the database's encoding is " + std::string(encoding) + " (" + where +
                         "): events need UTF8; create the database with ENCODING 'UTF8'");
  }
}

// Whether it is the server that takes no writes: an operator has said so in its
// configuration. What a role, a database or a URL say is another matter (settings.h).
bool server_is_read_only(PGconn* connection) {
  const char* by_default = PQparameterStatus(connection, "default_transaction_read_only");
  if (by_default != nullptr && std::string_view(by_default) == "off") return false;
  const ResultHandle found(PQexec(connection,
                                  "SELECT FROM pg_settings "
                                  "WHERE name = 'default_transaction_read_only' "
                                  "AND setting = 'on' AND source IN ('configuration file', "
                                  "'command line', 'environment variable', 'global')"));
  return PQntuples(found.get()) > 0;
}

// Servers talk too much for a log: notices are not errors.
void ignore_notice(void* /*unused*/, const PGresult* /*notice*/) {}

}  // namespace

std::string place_of(PGconn* connection) {
  const auto text = [](const char* part) { return std::string(part == nullptr ? "" : part); };
  return text(PQhost(connection)) + " " + text(PQhostaddr(connection)) + " " +
         text(PQport(connection)) + " " + text(PQdb(connection));
}

ConnectionHandle StoreConfig::connect(Use use) const {
  const bool wished = use == Use::users || (use == Use::operators && target.has_wish());
  check_process();
  reconnection.check(steady_clock::now());
  ConnectionHandle connection =
      target.connect(wished ? ConnectOptions::Server::as_wished : ConnectOptions::Server::primary);
  try {
    const auto check_connected = [&] {
      if (PQstatus(connection.get()) == CONNECTION_OK) return;
      throw_not_connected(connection.get(), description);
    };
    check_connected();
    if (!wished && server_is_read_only(connection.get())) {
      connection = target.connect(ConnectOptions::Server::read_write);
      check_connected();
    }
    check_server(connection.get(), description);
  } catch (const Error& error) {
    reconnection.failed(error.what(), steady_clock::now());
    throw;
  }
  reconnection.succeeded();
  // The environment (PGCLIENTENCODING) or the URL may have asked for another one.
  if (PQclientEncoding(connection.get()) != pg_char_to_encoding("UTF8") &&
      PQsetClientEncoding(connection.get(), "UTF8") != 0) {
    throw_failure(connection.get(), nullptr, "switch to UTF-8", description);
  }
  PQsetNoticeReceiver(connection.get(), ignore_notice, nullptr);
  return connection;
}

}  // namespace outbox::postgres
