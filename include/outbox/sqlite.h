// The store on SQLite: embedded, durable, shared by the processes of one host.
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

struct sqlite3;

namespace outbox {
struct Scheme;  // open.h
}

namespace outbox::sqlite {

// Whether a delivered event stays in the table.
enum class OnDone { keep, remove };

// PRAGMA synchronous: `full` survives a power cut, `normal` may lose the last
// commits in one (never in a crash of the process).
enum class Durability { normal, full };

struct Options {
  // `[A-Za-z_][A-Za-z0-9_]*`; the side tables and the lock file are named
  // after it.
  std::string table = "outbox_event";

  OnDone on_done = OnDone::keep;
  Durability durability = Durability::full;

  // How many transactions may be open at once. SQLite runs one writer at a
  // time; the others wait their turn.
  std::size_t connections = 8;

  // How long a transaction waits for a connection, and for the other writers.
  std::chrono::milliseconds wait_timeout{5'000};

  // Create the tables or bring them up to date. Without it, open() refuses a
  // database that is not up to date.
  bool migrate = true;

  // Called with each new connection for transactions before it is used:
  // to switch foreign keys on, to register functions.
  std::function<void(sqlite3*)> on_open{};

  std::shared_ptr<const JsonCodec> codec{};  // empty: default_json_codec()
  Logger log{};                              // empty: standard_error_log()
  const Clock* clock = nullptr;              // null: host_clock()
};

// Opens the database file, creating it if necessary, in WAL mode. Throws
// PermanentError if it can't be used (not a database, not writable, a schema
// newer than this library) and MisuseError for invalid options.
OUTBOX_EXPORT std::shared_ptr<Store> open(const std::string& path, Options options = {});

// For outbox::open() of open.h: `sqlite:PATH`, `sqlite:///ABSOLUTE/PATH`, and SQLite's own
// `file:...?...`.
OUTBOX_EXPORT Scheme scheme(Options options = {});

// The schema that open() migrates to, as SQL text, for a migration tool of your own.
OUTBOX_EXPORT std::string schema_sql(const std::string& table = "outbox_event");

// The schema version of the tables. Changes nothing and creates no file: version 0 if
// there is none. Throws PermanentError if the file can't be read or is not a database.
OUTBOX_EXPORT SchemaStatus schema_status(const std::string& path,
                                         const std::string& table = "outbox_event");

// Creates the file and the tables, or brings them up to date, as open() does with
// Options::migrate, and returns their status. Safe while others use or migrate them.
// Throws as open() does.
OUTBOX_EXPORT SchemaStatus migrate(const std::string& path,
                                   const std::string& table = "outbox_event");

// The handle of a pooled connection of an SQLite store (tx.connection()),
// for calling SQLite's own API inside the transaction. Throws MisuseError for
// connections of other stores.
OUTBOX_EXPORT sqlite3* handle(Connection& connection);

}  // namespace outbox::sqlite

namespace outbox {

// A connection of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   const auto mine = outbox::wrap(db, *store);        // beside your sqlite3
//   sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE ...", ...);
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   sqlite3_exec(db, "COMMIT", ...);
//   token.committed();
//
// Keeps a prepared statement: destroy it before sqlite3_close(). Changes no
// setting and no hook of the connection. Used by one thread at a time.
//
// Throws MisuseError if `db` has not opened the store's database, or `store`
// is not an SQLite store; a write throws it outside a transaction.
inline std::unique_ptr<Connection> wrap(sqlite3* db, Store& store) { return store.wrap(db); }

}  // namespace outbox
