// The databases that a run can work on, as its processes use them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outbox/spi/store.h"
#include "outbox/sqlite.h"
#include "settings.h"

namespace outbox::chaos {

// A connection that the application opened by itself, which the library only
// wraps. Used by one thread.
//
// Calls throw RetryableError if nothing has happened: the database was busy, or
// the connection is lost. Then recover() comes first.
class OwnConnection {
 public:
  virtual ~OwnConnection() = default;

  // For Writer::write(), and for statements with $1, $2, ... for the values.
  virtual Connection& connection() = 0;

  virtual void begin() = 0;

  // One statement without values.
  virtual void execute(const std::string& sql) = 0;

  // Throws OutcomeUnknownError if the answer was lost.
  virtual void commit() = 0;

  // Rolls back what is open, or reconnects.
  virtual void recover() = 0;
};

// Where the events are. Thread-safe.
class Database {
 public:
  virtual ~Database() = default;

  // Both throw RetryableError while the database is unreachable.
  virtual std::shared_ptr<Store> open() = 0;
  virtual std::unique_ptr<OwnConnection> connect(Store& store) = 0;

  // How often engines look for events that nobody has told them of. Long where all
  // commits are told of: a sweep would find what a read has missed, and so hide it.
  virtual std::chrono::milliseconds poll_interval() const = 0;

  // One statement each: has the database add a row to the table `registration`, which
  // has a column `owner`, whenever an instance registers. On servers only.
  virtual std::vector<std::string> note_registrations() const = 0;
};

// Each with the tables in the folder, in the first schema of the search path, or in the
// database of the URL.
std::unique_ptr<Database> sqlite_database(
    const std::string& path, sqlite::Durability durability = sqlite::Durability::normal);
std::unique_ptr<Database> postgres_database(const std::string& url, const Clock* clock = nullptr,
                                            std::optional<Progress> progress = std::nullopt);
std::unique_ptr<Database> mysql_database(const std::string& url, const Clock* clock = nullptr);

// The one that a process of the run works on. The clock, if any, is that of the
// process, and outlives the stores.
std::unique_ptr<Database> database_of(const Settings& settings, const Clock* clock = nullptr);

// These wait while the database is unreachable; for a minute at most.
std::shared_ptr<Store> open_patiently(Database& database);
std::unique_ptr<OwnConnection> connect_patiently(Database& database, Store& store);

// --- Databases for one test alone: empty at first, gone at the end ---

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

// Instantiates a suite that has a TemporaryDatabase as its parameter: on every store that is built,
// or on those with a server.
#ifdef OUTBOX_WITH_POSTGRES
#define OUTBOX_ON_POSTGRES(suite) \
  INSTANTIATE_TEST_SUITE_P(Postgres, suite, ::testing::Values(::outbox::chaos::kPostgres))
#else
#define OUTBOX_ON_POSTGRES(suite) static_assert(true)
#endif
#ifdef OUTBOX_WITH_MYSQL
#define OUTBOX_ON_MYSQL(suite) \
  INSTANTIATE_TEST_SUITE_P(Mysql, suite, ::testing::Values(::outbox::chaos::kMysql))
#else
#define OUTBOX_ON_MYSQL(suite) static_assert(true)
#endif
#define OUTBOX_ON_EVERY_SERVER(suite)                   \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite); \
  OUTBOX_ON_POSTGRES(suite);                            \
  OUTBOX_ON_MYSQL(suite)
#define OUTBOX_ON_EVERY_DATABASE(suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(Sqlite, suite, ::testing::Values(::outbox::chaos::kSqlite)); \
  OUTBOX_ON_POSTGRES(suite);                                                            \
  OUTBOX_ON_MYSQL(suite)
