// Events in transactions of SQLiteCpp, 3.0 or later.
//
// Includes <SQLiteCpp/SQLiteCpp.h>, and so needs that library; link it beside outbox::sqlite. It
// must use the same SQLite: one that is compiled into SQLiteCpp does not work.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <memory>

#include "outbox/spi/store.h"
#include "outbox/sqlite.h"

namespace outbox {

// A database of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   auto mine = outbox::wrap(db, *store);     // beside your SQLite::Database, and gone before it
//   SQLite::Transaction tx{db, SQLite::TransactionBehavior::IMMEDIATE};
//   db.exec("UPDATE ...");
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   tx.commit();
//   token.committed();
//
// Throws MisuseError as wrap(sqlite3*) does, see sqlite.h. Used by one thread at a time.
inline std::unique_ptr<Connection> wrap(const SQLite::Database& db, Store& store) {
  return wrap(db.getHandle(), store);
}

}  // namespace outbox
