// The store on MariaDB 10.6+ and MySQL 8+: shared by many instances on many hosts.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "outbox/admin/schema.h"
#include "outbox/clock.h"
#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"

struct st_mysql;  // libmariadb's MYSQL

namespace outbox {
struct Scheme;  // open.h
}

namespace outbox::mysql {

// Whether a delivered event stays in the table.
enum class OnDone { keep, remove };

struct Options {
  // `[A-Za-z_][A-Za-z0-9_]*`, at most 48 characters, optionally qualified by `database.`;
  // the side tables are named after it. By default it is in the URL's database.
  std::string table = "outbox_event";

  OnDone on_done = OnDone::keep;

  // How many transactions may be open at once. An engine needs four more, and
  // operators' calls up to five.
  std::size_t connections = 8;

  // How long a transaction waits for a connection.
  std::chrono::milliseconds wait_timeout{5'000};

  // How long a statement of a transaction may take, its COMMIT included, and an operator's
  // call; ten times that for searches and purges. Then the connection is given up:
  // RetryableError, or for a COMMIT OutcomeUnknownError. So nobody waits for ever for a
  // frozen server. 0: no limit. In whole seconds, two at least;
  // read_timeout in the URL takes precedence.
  std::chrono::milliseconds statement_timeout{30'000};

  // Create the tables or bring them up to date. Without it, open() refuses a
  // database that is not up to date.
  bool migrate = true;

  // Keep statements prepared on each connection. Switch it off behind a proxy that
  // shares connections (ProxySQL with multiplexing), which loses them.
  bool prepare = true;

  // Called with each new connection for transactions before it is used: to set
  // a time zone, an isolation level, an SQL mode. By default they are the server's;
  // only autocommit is switched on, text is utf8mb4, and an UPDATE counts the rows that
  // it matched, changed or not.
  std::function<void(st_mysql*)> on_open{};

  std::shared_ptr<const JsonCodec> codec{};  // empty: default_json_codec()
  Logger log{};                              // empty: standard_error_log()

  // For local waiting, and for the times of events. Leases, delays and retries
  // go by the server's clock.
  const Clock* clock = nullptr;  // null: host_clock()
};

// Connects to the database:
//
//   mysql://user:password@host:3306/shop?ssl_mode=verify_identity&ssl_ca=/etc/ca.pem
//
// `mariadb://` means the same; see docs/databases.md for the options.
//
// Throws RetryableError while the server is unreachable, PermanentError if the database
// can't be used (refused login, a schema newer than this library, a server older than
// MariaDB 10.6 or MySQL 8.0) and MisuseError for a URL or invalid options.
// No message ever shows a password.
OUTBOX_EXPORT std::shared_ptr<Store> open(const std::string& url, Options options = {});

// For outbox::open() of open.h: `mysql://...` and `mariadb://...`.
OUTBOX_EXPORT Scheme scheme(Options options = {});

// Their collations have different names.
enum class Server { mariadb, mysql };

// The schema that open() migrates to, as SQL text, for a migration tool of your own.
OUTBOX_EXPORT std::string schema_sql(Server server, const std::string& table = "outbox_event");

// The schema version of the tables; 0 if there are none. Changes nothing.
OUTBOX_EXPORT SchemaStatus schema_status(const std::string& url,
                                         const std::string& table = "outbox_event");

// Creates the tables, or brings them up to date, as open() does with Options::migrate, and
// returns their status. Safe while others use or migrate them.
OUTBOX_EXPORT SchemaStatus migrate(const std::string& url,
                                   const std::string& table = "outbox_event");

// The handle of a pooled connection of a MySQL store (tx.connection()), for calling
// libmariadb inside the transaction. Throws MisuseError for connections of other stores.
OUTBOX_EXPORT st_mysql* handle(Connection& connection);

}  // namespace outbox::mysql

namespace outbox {

// A connection of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   const auto mine = outbox::wrap(conn, *store);    // beside your MYSQL
//   mysql_query(conn, "BEGIN");  mysql_query(conn, "UPDATE ...");
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   mysql_commit(conn);
//   token.committed();
//
// Changes none of the connection's settings, whatever its character set, SQL mode and time
// zone are, and leaves nothing behind on it. Used by one thread at a time.
//
// Throws MisuseError if `conn` is not an open connection, or `store` is not a MySQL store; a write
// throws it outside a transaction, or if the connection leads to another server. It cannot wrap
// connections of Oracle's client library: use an executor (adapter/executor.h).
inline std::unique_ptr<Connection> wrap(st_mysql* conn, Store& store) { return store.wrap(conn); }

}  // namespace outbox
