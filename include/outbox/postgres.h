// The store on PostgreSQL: shared by many instances on many hosts.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "outbox/admin/schema.h"
#include "outbox/clock.h"
#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/options.h"
#include "outbox/spi/json_codec.h"
#include "outbox/spi/store.h"

struct pg_conn;  // libpq's PGconn

namespace outbox {
struct Scheme;  // open.h
}

namespace outbox::postgres {

// Whether a delivered event stays in the table.
enum class OnDone { keep, remove };

struct Options {
  // `[A-Za-z_][A-Za-z0-9_]*`, at most 48 characters, optionally qualified by `schema.`;
  // the side tables are named after it. By default it is in the first schema of the
  // connection's search path.
  std::string table = "outbox_event";

  OnDone on_done = OnDone::keep;

  // Unset: what the table has, and Progress::row for a new one. A table that has the other one is
  // refused. By position there are no row claims, no OnDone::remove and no direct hot path; events
  // are purged by the time at which they were available.
  std::optional<Progress> progress{};

  // How many transactions may be open at once. An engine needs four more, and
  // operators' calls up to five.
  std::size_t connections = 8;

  // How long a transaction waits for a connection.
  std::chrono::milliseconds wait_timeout{5'000};

  // How long a statement of a transaction may take, its COMMIT included, and an operator's
  // call; ten times that for searches and purges. Then the connection is given up:
  // RetryableError, or for a COMMIT OutcomeUnknownError. So nobody waits for ever for a
  // frozen server. 0: no limit. Your own calls on postgres::handle() have no limit.
  std::chrono::milliseconds statement_timeout{30'000};

  // Create the tables or bring them up to date. Without it, open() refuses a
  // database that is not up to date.
  bool migrate = true;

  // Keep statements prepared on each connection. Switch it off behind PgBouncer
  // in transaction mode, which may give every transaction another connection.
  bool prepare = true;

  // Send events together with the COMMIT, in one round trip, instead of when they are
  // written. Until then the transaction does not see their rows, and an event that the
  // database refuses (its id is taken) fails the commit.
  bool insert_at_commit = false;

  // Notify other processes of commits with NOTIFY (on a connection of its own,
  // many commits at a time), and listen for theirs. Without it they are found by
  // polling.
  bool notify = true;

  // Called with each new connection for transactions before it is used:
  // to set a search path, a role, a statement timeout.
  std::function<void(pg_conn*)> on_open{};

  std::shared_ptr<const JsonCodec> codec{};  // empty: default_json_codec()
  Logger log{};                              // empty: standard_error_log()

  // For local waiting, and for the times of events. Leases, delays and retries
  // go by the server's clock.
  const Clock* clock = nullptr;  // null: host_clock()
};

// Connects to the database. `url` is whatever libpq takes: a URL
// (postgresql://user@host1,host2/shop?sslmode=verify-full) or a list of settings
// (host=... dbname=...), with TLS, several hosts and target_session_attrs. Missing
// settings come from the environment (PGHOST, PGPASSFILE, ...) as usual. Of
// several hosts the one that takes writes is used, unless the URL says otherwise.
//
// Throws RetryableError while the server is unreachable, PermanentError if the database
// can't be used (refused login, not UTF-8, a schema newer than this library, a
// server older than 13) and MisuseError for a URL or invalid options.
// No message ever shows a password.
OUTBOX_EXPORT std::shared_ptr<Store> open(const std::string& url, Options options = {});

// For outbox::open() of open.h: `postgresql://...` and `postgres://...`.
OUTBOX_EXPORT Scheme scheme(Options options = {});

// The schema that open() migrates to, as SQL text, for a migration tool of your own. It
// also brings tables of an older version up to date. By position it fails for a table that has been
// used by row.
OUTBOX_EXPORT std::string schema_sql(const std::string& table = "outbox_event",
                                     Progress progress = Progress::row);

// The schema version of the tables; 0 if there are none. Changes nothing.
OUTBOX_EXPORT SchemaStatus schema_status(const std::string& url,
                                         const std::string& table = "outbox_event");

// Creates the tables, or brings them up to date, as open() does with Options::migrate, and
// returns their status. Safe while others use or migrate them. `progress` is as in Options.
OUTBOX_EXPORT SchemaStatus migrate(const std::string& url,
                                   const std::string& table = "outbox_event",
                                   std::optional<Progress> progress = {});

struct SwitchOptions {
  std::string table = "outbox_event";

  // How long to wait for those who deliver to drain what they have, and for locks.
  std::chrono::milliseconds patience{60'000};

  // Told what it is doing, in a sentence without an end.
  std::function<void(const std::string& step)> on_step{};
};

// Switches a table between the two kinds of progress while it is in use; false if it is of that
// kind. Writers go on. Engines drain what they have, as for another instance that asks for
// everything; then nobody delivers until programs are restarted: those that are running cannot
// register any more, and say why. Nothing is lost, and nothing delivered twice. If it is
// interrupted, call it again.
//
// Throws MisuseError while instances claim rows, and for a table with several subscriptions if
// `to` is Progress::row; RetryableError if the server is unreachable, or somebody does not drain in
// time: the table is as it was then.
OUTBOX_EXPORT bool switch_progress(const std::string& url, Progress to,
                                   const SwitchOptions& options = {});

// The handle of a pooled connection of a PostgreSQL store (tx.connection()),
// for calling libpq inside the transaction. Throws MisuseError for connections
// of other stores.
OUTBOX_EXPORT pg_conn* handle(Connection& connection);

}  // namespace outbox::postgres

namespace outbox {

// A connection of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   const auto mine = outbox::wrap(conn, *store);    // beside your PGconn
//   PQexec(conn, "BEGIN");  PQexec(conn, "UPDATE ...");
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   PQexec(conn, "COMMIT");
//   token.committed();
//
// Changes none of the connection's settings, and leaves nothing behind on it but a prepared
// statement (none with Options::prepare off). Used by one thread at a time.
//
// Throws MisuseError if `conn` is not an open connection, or `store` is not a PostgreSQL store; a
// write throws it outside a transaction, or if the connection leads to another database.
inline std::unique_ptr<Connection> wrap(pg_conn* conn, Store& store) { return store.wrap(conn); }

}  // namespace outbox
