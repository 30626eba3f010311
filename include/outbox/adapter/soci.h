// Events in transactions of SOCI, 4.0 or later, for programs that learn only when they
// run whether that is on PostgreSQL or on MySQL. Needs both backends and both stores:
// with one of them alone, include soci_postgres.h or soci_mysql.h instead.
#pragma once

#include <soci/soci.h>

#include <memory>
#include <string>

#include "outbox/adapter/soci_mysql.h"
#include "outbox/adapter/soci_postgres.h"
#include "outbox/error.h"
#include "outbox/spi/store.h"

namespace outbox {

// postgres::wrap() or mysql::wrap(), as the session's backend is. Throws MisuseError
// if it is neither, or the store is not one of the same kind.
inline std::unique_ptr<Connection> wrap(soci::session& session, Store& store) {
  soci::details::session_backend* backend = session.get_backend();
  if (backend == nullptr) {
    throw MisuseError("outbox::wrap() was given a soci::session that is not connected");
  }
  const std::string name = backend->get_backend_name();
  if (name == "postgresql") return postgres::wrap(session, store);
  if (name == "mysql") return mysql::wrap(session, store);
  throw MisuseError("outbox::wrap() was given a soci::session of SOCI's backend '" + name +
                    "': it takes those of postgresql and mysql");
}

}  // namespace outbox
