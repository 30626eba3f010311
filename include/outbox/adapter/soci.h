// Events in transactions of SOCI, 4.0 or later, on its PostgreSQL, MySQL and SQLite backends.
//
// Includes <soci/soci.h>, and the headers of each backend that is in the include path together with
// its client library's (libpq-fe.h, mysql.h, sqlite3.h). Link soci_core and the
// backend beside the store. The backend must use the same client library as the store: for
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
// So that the rest of the program can still include <sqlite3.h>.
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
// Outside a transaction a write throws MisuseError, also after a deadlock, for which MySQL rolls
// the transaction back; after session.reconnect() wrap the session again. On SQLite, begin
// transactions with BEGIN IMMEDIATE where you can: soci::transaction does not. If tx.commit()
// throws because the connection was lost, the outcome is unknown: do not call token.committed().
// For the rest see wrap() in postgres.h, mysql.h and sqlite.h. Used by one thread at a time.
//
// Throws MisuseError if the session is not connected, has another backend, or is on another
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
    // The same type, whether in SOCI's namespace or not.
    void* const db = static_cast<soci::sqlite3_session_backend*>(backend)->conn_;
    return store.wrap(static_cast<struct sqlite3*>(db));
  }
#endif
  throw MisuseError("outbox::wrap() was given a soci::session of SOCI's backend '" + name +
                    "': it takes those of postgresql, mysql and sqlite3, if their headers were in "
                    "the include path when the program was compiled");
}

}  // namespace outbox
