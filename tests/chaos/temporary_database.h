// Databases for one test alone: empty at first, gone at the end.
#pragma once

#include <memory>

#include "database.h"

namespace outbox::chaos {

std::unique_ptr<Database> temporary_sqlite_database();
std::unique_ptr<Database> temporary_postgres_database();
std::unique_ptr<Database> temporary_mysql_database();

// What a test that holds on each of them takes as its parameter.
struct TemporaryDatabase {
  const char* server = nullptr;  // the variable that names it; null: it has none
  std::unique_ptr<Database> (*make)() = nullptr;
};
inline constexpr TemporaryDatabase kSqlite{.make = temporary_sqlite_database};
inline constexpr TemporaryDatabase kPostgres{.server = "OUTBOX_TEST_POSTGRES",
                                             .make = temporary_postgres_database};
inline constexpr TemporaryDatabase kMysql{.server = "OUTBOX_TEST_MYSQL",
                                          .make = temporary_mysql_database};

}  // namespace outbox::chaos
