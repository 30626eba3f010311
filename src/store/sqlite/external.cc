#include <sys/stat.h>

#include <string>

#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite_store.h"

namespace outbox::sqlite {
namespace {

StoreConfigPtr config_of_store(Store& store) {
  if (const auto* sqlite_store = dynamic_cast<SqliteStore*>(&store)) {
    return sqlite_store->config();
  }
  throw MisuseError("sqlite::ExternalConnection needs an SQLite store, not " + store.description());
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat at_a {};
  struct stat at_b {};
  return stat(a.c_str(), &at_a) == 0 && stat(b.c_str(), &at_b) == 0 && at_a.st_dev == at_b.st_dev &&
         at_a.st_ino == at_b.st_ino;
}

// The row must go where the store's reader looks for it.
void check_same_database(sqlite3* db, const StoreConfig& config) {
  if (db == nullptr) throw MisuseError("sqlite::ExternalConnection was given a null connection");
  const char* name = sqlite3_db_filename(db, "main");
  const std::string file = name == nullptr ? "" : name;
  if (!same_file(file, config.file)) {
    throw MisuseError("sqlite::ExternalConnection was given a connection to '" + file +
                      "', and the store is " + config.description + ": open the same file");
  }
}

[[noreturn]] void refuse(const char* call) {
  throw MisuseError(std::string("sqlite::ExternalConnection::") + call +
                    "(): the transaction on an external connection is its owner's; begin and end "
                    "it with SQLite's own API");
}

}  // namespace

class ExternalConnection::Impl {
 public:
  Impl(sqlite3* db, StoreConfigPtr config) : session_(db, std::move(config)) {}

  Session& session() {
    config_of(session_).check_process();
    return session_;
  }
  const Session& session() const { return session_; }

 private:
  Session session_;
};

ExternalConnection::ExternalConnection(sqlite3* db, Store& store) {
  StoreConfigPtr config = config_of_store(store);
  check_same_database(db, *config);
  impl_ = std::make_unique<Impl>(db, std::move(config));
}

ExternalConnection::~ExternalConnection() = default;

bool ExternalConnection::in_transaction() const { return impl_->session().in_transaction(); }

std::vector<RowRef> ExternalConnection::insert(std::span<const Event> events,
                                               const InsertOptions& options) {
  Session& session = impl_->session();
  if (!session.in_transaction()) {
    throw MisuseError("an event was to be written outside a transaction (" +
                      config_of(session).description +
                      ", an external connection): run BEGIN IMMEDIATE on it first");
  }
  config_of(session).check_file();
  return insert_rows(session, events, options);
}

void ExternalConnection::begin() { refuse("begin"); }
void ExternalConnection::commit() { refuse("commit"); }
void ExternalConnection::rollback() { refuse("rollback"); }
void ExternalConnection::savepoint(const std::string& /*name*/) { refuse("savepoint"); }
void ExternalConnection::release(const std::string& /*name*/) { refuse("release"); }
void ExternalConnection::rollback_to(const std::string& /*name*/) { refuse("rollback_to"); }

std::int64_t ExternalConnection::execute(std::string_view sql, std::span<const Parameter> values) {
  return impl_->session().execute(sql, values);
}

std::vector<ResultRow> ExternalConnection::query(std::string_view sql,
                                                 std::span<const Parameter> values) {
  return impl_->session().query(sql, values);
}

sqlite3* handle(Connection& connection) {
  if (const auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("sqlite::handle() needs a connection from the pool of an SQLite store");
}

}  // namespace outbox::sqlite
