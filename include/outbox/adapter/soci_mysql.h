// Events in transactions of SOCI, 4.0 or later, on its MySQL backend.
//
// Includes <soci/soci.h> and that backend's header, and so needs that library; link
// soci_core and soci_mysql beside outbox::mysql. SOCI must have been built with
// libmariadb, as Debian's is: a connection of another client library is not one of ours.
#pragma once

#include <soci/mysql/soci-mysql.h>
#include <soci/soci.h>

#include <memory>

#include "outbox/error.h"
#include "outbox/mysql.h"
#include "outbox/spi/store.h"

namespace outbox::mysql {

// A session of the user's own, for Writer::write(connection, draft):
//
//   auto mine = outbox::mysql::wrap(session, *store);     // beside your session
//   soci::transaction tx{session};
//   session << "UPDATE ...";
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   tx.commit();
//   token.committed();
//
// Outside a transaction a write throws MisuseError, also after a deadlock, by which the
// server has rolled it back; after session.reconnect() wrap it anew. If tx.commit()
// throws because the connection was lost, the outcome is unknown: leave
// token.committed() out. The rest is as mysql::ExternalConnection says.
//
// Throws MisuseError if the session is not connected, is one of another backend, or
// `store` is not a MySQL store.
inline std::unique_ptr<Connection> wrap(soci::session& session, Store& store) {
  soci::details::session_backend* backend = session.get_backend();
  if (backend == nullptr || backend->get_backend_name() != "mysql") {
    throw MisuseError(
        "outbox::mysql::wrap() was given a soci::session that is not connected by SOCI's MySQL "
        "backend");
  }
  return std::make_unique<ExternalConnection>(
      static_cast<soci::mysql_session_backend*>(backend)->conn_, store);
}

}  // namespace outbox::mysql
