// Events in transactions of SOCI, 4.0 or later, on its PostgreSQL backend.
//
// Includes <soci/soci.h> and that backend's header, and so needs that library; link
// soci_core and soci_postgresql beside outbox::postgres.
#pragma once

#include <soci/postgresql/soci-postgresql.h>
#include <soci/soci.h>

#include <memory>

#include "outbox/error.h"
#include "outbox/postgres.h"
#include "outbox/spi/store.h"

namespace outbox::postgres {

// A session of the user's own, for Writer::write(connection, draft):
//
//   auto mine = outbox::postgres::wrap(session, *store);     // beside your session
//   soci::transaction tx{session};
//   session << "UPDATE ...";
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   tx.commit();
//   token.committed();
//
// Outside a transaction a write throws MisuseError; after session.reconnect() wrap it
// anew. If tx.commit() throws because the connection was lost, the outcome is unknown:
// leave token.committed() out. The rest is as postgres::ExternalConnection says.
//
// Throws MisuseError if the session is not connected, is one of another backend, or
// `store` is not a PostgreSQL store.
inline std::unique_ptr<Connection> wrap(soci::session& session, Store& store) {
  soci::details::session_backend* backend = session.get_backend();
  if (backend == nullptr || backend->get_backend_name() != "postgresql") {
    throw MisuseError(
        "outbox::postgres::wrap() was given a soci::session that is not connected by SOCI's "
        "PostgreSQL backend");
  }
  return std::make_unique<ExternalConnection>(
      static_cast<soci::postgresql_session_backend*>(backend)->conn_, store);
}

}  // namespace outbox::postgres
