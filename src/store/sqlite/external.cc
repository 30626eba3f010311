#include "store/common/external.h"

#include <sys/stat.h>

#include <string>
#include <utility>
#include <variant>

#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite_store.h"

namespace outbox::sqlite {
namespace {

bool same_file(const std::string& a, const std::string& b) {
  struct stat at_a {};
  struct stat at_b {};
  return stat(a.c_str(), &at_a) == 0 && stat(b.c_str(), &at_b) == 0 && at_a.st_dev == at_b.st_dev &&
         at_a.st_ino == at_b.st_ino;
}

// The row must go where the store's reader looks for it.
void check_same_database(sqlite3* db, const StoreConfig& config) {
  if (db == nullptr) throw MisuseError("outbox::wrap() was given a null sqlite3");
  const char* name = sqlite3_db_filename(db, "main");
  const std::string file = name == nullptr ? "" : name;
  if (!same_file(file, config.file)) {
    throw MisuseError("outbox::wrap() was given a connection to '" + file + "', and the store is " +
                      config.description + ": open the same file");
  }
}

class SqliteConnection final : public ExternalSession<Session> {
 public:
  SqliteConnection(sqlite3* db, StoreConfigPtr config) : ExternalSession(db, std::move(config)) {}

  bool in_transaction() const override { return session().in_transaction(); }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    Session& own = session();
    if (!own.in_transaction()) {
      throw MisuseError("an event cannot be written outside a transaction (" +
                        config_of(own).description +
                        ", an external connection): run BEGIN IMMEDIATE on it first");
    }
    config_of(own).check_file();
    return insert_rows(own, events, options);
  }
};

}  // namespace

std::unique_ptr<Connection> SqliteStore::wrap(ExternalHandle handle) {
  auto* const* db = std::get_if<sqlite3*>(&handle);
  if (db == nullptr) return Store::wrap(handle);  // refuses
  check_same_database(*db, *config());
  return std::make_unique<SqliteConnection>(*db, config());
}

sqlite3* handle(Connection& connection) {
  if (const auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("sqlite::handle() needs a connection from the pool of an SQLite store");
}

}  // namespace outbox::sqlite
