// Events in transactions of Qt SQL, of Qt 5 or 6, by its drivers QPSQL, QMYSQL (QMARIADB) and
// QSQLITE.
//
// Includes QtSql's headers, and so needs that library; link Qt5::Sql or Qt6::Sql beside the store.
// Qt's driver must use the same client library as the store, as the packages of Linux
// distributions do: libpq, libmariadb, the system's SQLite. Qt's own binaries contain a separate
// SQLite, which does not work.
#pragma once

#include <QtCore/QVariant>
#include <QtSql/QSqlDatabase>
#include <QtSql/QSqlDriver>
#include <memory>
#include <string>
#include <string_view>

#include "outbox/error.h"
#include "outbox/spi/store.h"

namespace outbox {

// A connection of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   auto mine = outbox::wrap(db, *store);     // beside your database, and gone before it closes
//   db.transaction();
//   QSqlQuery{db}.exec("UPDATE ...");
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   if (db.commit()) token.committed();
//
// Outside a transaction a write throws MisuseError. Qt uses utf8mb3 with MySQL and MariaDB: to
// pass characters of four bytes to the consumer patterns, run SET NAMES utf8mb4 first. For the rest
// see wrap() in postgres.h, mysql.h and sqlite.h. Used by one thread at a time, the one that Qt
// allows.
//
// Throws MisuseError if the database is not open, has another driver, or is not the store's.
inline std::unique_ptr<Connection> wrap(const QSqlDatabase& db, Store& store) {
  const auto driver_name = db.driverName().toStdString();
  if (!db.isOpen()) {
    throw MisuseError("outbox::wrap() was given a QSqlDatabase that is not open (driver '" +
                      driver_name + "')");
  }
  const QVariant handle = db.driver()->handle();
  const std::string_view type = handle.typeName() == nullptr ? "" : handle.typeName();
  // Qt 5 says how its driver's source calls the type, Qt 6 how the compiler does.
  if (type == "PGconn*" || type == "pg_conn*") {
    return store.wrap(*static_cast<pg_conn* const*>(handle.constData()));
  }
  if (type == "MYSQL*" || type == "st_mysql*") {
    return store.wrap(*static_cast<st_mysql* const*>(handle.constData()));
  }
  if (type == "sqlite3*") return store.wrap(*static_cast<sqlite3* const*>(handle.constData()));
  throw MisuseError("outbox::wrap() was given a QSqlDatabase of the driver '" + driver_name +
                    "': it takes QPSQL, QMYSQL and QSQLITE");
}

}  // namespace outbox
