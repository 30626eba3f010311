#include "store/postgres/environment.h"

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

// Servers talk too much for a log: notices are not errors.
void ignore_notice(void* /*unused*/, const PGresult* /*notice*/) {}

}  // namespace

ConnectionHandle Environment::connect() const {
  check_process();
  reconnection.check(steady_clock::now());
  ConnectionHandle connection = target.connect();
  try {
    if (PQstatus(connection.get()) != CONNECTION_OK) {
      throw_not_connected(connection.get(), description);
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
