#include "store/mysql/environment.h"

#include <algorithm>

#include "outbox/error.h"
#include "store/mysql/statement.h"

namespace outbox::mysql {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// The server waits for a lock for a second at least. Whoever gave up then as well would
// lose the connection instead of hearing of it.
constexpr seconds kShortestLimit{2};

void run(MYSQL* connection, const std::string& text, const std::string& where) {
  if (mysql_real_query(connection, text.data(), text.size()) != 0) {
    throw_failure(Failure::of(connection), "set the connection up", where);
  }
}

// The character set is said again because servers may ignore what the client asked for
// (skip-character-set-client-handshake).
std::string settings_for(Use use, bool is_mariadb, std::optional<seconds> limit) {
  if (use == Use::transactions) return "SET NAMES utf8mb4, SESSION autocommit = 1";
  std::string sql =
      "SET NAMES utf8mb4 COLLATE utf8mb4_bin, SESSION autocommit = 1,"
      " SESSION time_zone = '+00:00', SESSION group_concat_max_len = 1024,"
      " SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',";
  sql += is_mariadb ? " SESSION tx_isolation = 'READ-COMMITTED'"
                    : " SESSION transaction_isolation = 'READ-COMMITTED'";
  if (limit) {
    // Else the server would go on waiting for the lock when nobody waits for it.
    const auto wait = std::to_string(limit->count() - 1);
    sql += ", SESSION innodb_lock_wait_timeout = " + wait + ", SESSION lock_wait_timeout = " + wait;
  }
  return sql;
}

std::size_t read_max_packet(MYSQL* connection, const std::string& where) {
  run(connection, "SELECT @@max_allowed_packet", where);
  const ResultHandle rows(mysql_store_result(connection));
  if (!rows) throw_failure(Failure::of(connection), "set the connection up", where);
  return static_cast<std::size_t>(Result(connection, rows.get()).integer(0, 0));
}

}  // namespace

ConnectionHandle Environment::connect(Use use, std::optional<milliseconds> limit) const {
  check_process();
  reconnection.check(steady_clock::now());
  std::optional<seconds> limit_in_seconds;
  if (limit) limit_in_seconds = std::max(kShortestLimit, std::chrono::ceil<seconds>(*limit));
  try {
    ConnectionHandle connection = target.connect(limit_in_seconds);
    const bool is_mariadb = mariadb_connection(connection.get()) != 0;
    check_version(is_mariadb, mysql_get_server_info(connection.get()),
                  mysql_get_server_version(connection.get()), description);
    run(connection.get(), settings_for(use, is_mariadb, limit_in_seconds), description);
    max_packet = read_max_packet(connection.get(), description);
    reconnection.succeeded();
    return connection;
  } catch (const Error& error) {
    reconnection.failed(error.what(), steady_clock::now());
    throw;
  }
}

void check_version(bool is_mariadb, std::string_view version, unsigned long number,
                   const std::string& where) {
  constexpr unsigned long kOldestMariaDb = 100'600;
  constexpr unsigned long kOldestMySql = 80'000;
  if (number >= (is_mariadb ? kOldestMariaDb : kOldestMySql)) return;
  throw PermanentError("the server is " + std::string(is_mariadb ? "MariaDB " : "MySQL ") +
                       std::string(version) + " (" + where +
                       "), which has no SKIP LOCKED; this library needs MariaDB 10.6 or MySQL 8.0");
}

}  // namespace outbox::mysql
