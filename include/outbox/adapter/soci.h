// Events in transactions of SOCI, 4.0 or later, on its PostgreSQL, MySQL and SQLite backends.
//
// Includes <soci/soci.h>, and the headers of those backends whose own headers and those of their
// client library (libpq-fe.h, mysql.h, sqlite3.h) are in the include path. Link soci_core and the
// backend beside the store. The backend must use the client library that the store uses: for
// MySQL libmariadb, as Debian's does. SOCI declares SQLite's functions in a namespace of its
// own; if you call them there, include soci-sqlite3.h before this.
#pragma once

#include <soci/soci.h>

#if __has_include(<libpq-fe.h>) && __has_include(<soci/postgresql/soci-postgresql.h>)
#include <soci/postgresql/soci-postgresql.h>
#define OUTBOX_HAS_SOCI_POSTGRESQL
#endif
#if __has_include(<mysql.h>) && __has_include(<soci/mysql/soci-mysql.h>)
#include <soci/mysql/soci-mysql.h>
#define OUTBOX_HAS_SOCI_MYSQL
#endif
#if __has_include(<sqlite3.h>) && __has_include(<soci/sqlite3/soci-sqlite3.h>)
#ifndef SOCI_SQLITE3_H_INCLUDED
// So that it does not take <sqlite3.h> away from the rest of the program.
#include <sqlite3.h>
namespace sqlite_api {
using ::sqlite3;
using ::sqlite3_destructor_type;
using ::sqlite3_int64;
using ::sqlite3_stmt;
}  // namespace sqlite_api
#endif
#include <soci/sqlite3/soci-sqlite3.h>
#define OUTBOX_HAS_SOCI_SQLITE3
#endif

#include <memory>
#include <string>

#include "outbox/error.h"
#include "outbox/spi/store.h"

namespace outbox {

// A session of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   auto mine = outbox::wrap(session, *store);     // beside your session
//   soci::transaction tx{session};
//   session << "UPDATE ...";
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   tx.commit();
//   token.committed();
//
// Outside a transaction a write throws MisuseError, also after a deadlock, by which MySQL has
// rolled it back; after session.reconnect() wrap it again. On SQLite, begin transactions with
// BEGIN IMMEDIATE where you can: soci::transaction does not. If tx.commit() throws because the
// connection was lost, the outcome is unknown: leave token.committed() out. The rest is as
// postgres.h, mysql.h and sqlite.h say of wrap(). Used by one thread at a time.
//
// Throws MisuseError if the session is not connected, is one of another backend, or of another
// database than the store.
inline std::unique_ptr<Connection> wrap(soci::session& session, Store& store) {
  soci::details::session_backend* backend = session.get_backend();
  if (backend == nullptr) {
    throw MisuseError("outbox::wrap() was given a soci::session that is not connected");
  }
  const std::string name = backend->get_backend_name();
#ifdef OUTBOX_HAS_SOCI_POSTGRESQL
  if (name == "postgresql") {
    return store.wrap(static_cast<soci::postgresql_session_backend*>(backend)->conn_);
  }
#endif
#ifdef OUTBOX_HAS_SOCI_MYSQL
  if (name == "mysql") {
    return store.wrap(static_cast<soci::mysql_session_backend*>(backend)->conn_);
  }
#endif
#ifdef OUTBOX_HAS_SOCI_SQLITE3
  if (name == "sqlite3") {
    // In a namespace of SOCI's or not, it is the same.
    void* const db = static_cast<soci::sqlite3_session_backend*>(backend)->conn_;
    return store.wrap(static_cast<struct sqlite3*>(db));
  }
#endif
  throw MisuseError("outbox::wrap() was given a soci::session of SOCI's backend '" + name +
                    "': it takes those of postgresql, mysql and sqlite3, if their headers were in "
                    "the include path when the program was compiled");
}

}  // namespace outbox
