#include <string>

#include "base/quote.h"
#include "client/mysql/session.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/mysql/connection.h"
#include "store/mysql/mysql_store.h"

namespace outbox::mysql {
namespace {

StoreConfigPtr config_of_store(Store& store) {
  if (const auto* mysql_store = dynamic_cast<MysqlStore*>(&store)) {
    return mysql_store->config();
  }
  throw MisuseError("mysql::ExternalConnection needs a MySQL store, not " + store.description());
}

MYSQL* checked(MYSQL* conn) {
  if (conn == nullptr) throw MisuseError("mysql::ExternalConnection was given a null connection");
  if (mysql_get_socket(conn) == MARIADB_INVALID_SOCKET) {
    throw MisuseError("mysql::ExternalConnection was given a connection that is not open");
  }
  return conn;
}

[[noreturn]] void refuse(const char* call) {
  throw MisuseError(std::string("mysql::ExternalConnection::") + call +
                    "(): the transaction on an external connection is its owner's; begin and end "
                    "it with libmariadb's own API");
}

// The row must go where the store's reader looks for it. Under another address there may be the
// same tables all the same (another node of a cluster): it is asked once.
void check_same_tables(Session& session) {
  const StoreConfig& config = config_of(session);
  const std::string place = place_of(session.handle());
  if (config.born.empty() || config.places.contains(place)) return;
  const std::string born = born_at(session);
  if (born.empty()) return;  // the INSERT says what is missing
  if (born != config.born) {
    throw MisuseError("mysql::ExternalConnection was given a connection to another server (" +
                      quote(place) + "), and the store is the " + config.description +
                      ": its tables there are others; connect to the same server");
  }
  config.places.add(place);
}

}  // namespace

class ExternalConnection::Impl {
 public:
  Impl(MYSQL* conn, const StoreConfigPtr& config)
      : session_(conn, config, config->max_packet, Session::Prepare::never) {}

  Session& session() {
    config_of(session_).check_process();
    return session_;
  }

  // An error does not say what it has left of the transaction (nothing, if it was a
  // deadlock); the next answer does.
  bool in_transaction() {
    // Errors say nothing about the transaction. That of a statement of ours was forgotten by
    // the library when the statement was closed.
    if (mysql_errno(session_.handle()) != 0 || session_.last_failure().ended_transaction()) {
      session().run_text("DO 0", "look at the connection");
      session_.forget_failure();
    }
    unsigned status = 0;
    mariadb_get_infov(session_.handle(), MARIADB_CONNECTION_SERVER_STATUS, &status);
    return (status & SERVER_STATUS_IN_TRANS) != 0 || (status & SERVER_STATUS_AUTOCOMMIT) == 0;
  }

 private:
  Session session_;
};

ExternalConnection::ExternalConnection(st_mysql* conn, Store& store)
    : impl_(std::make_unique<Impl>(checked(conn), config_of_store(store))) {}

ExternalConnection::~ExternalConnection() = default;

bool ExternalConnection::in_transaction() const { return impl_->in_transaction(); }

std::vector<RowRef> ExternalConnection::insert(std::span<const Event> events,
                                               const InsertOptions& options) {
  Session& session = impl_->session();
  if (!impl_->in_transaction()) {
    throw MisuseError("an event was to be written outside a transaction (" +
                      config_of(session).description +
                      ", an external connection): run BEGIN on it first; after a deadlock the "
                      "server has rolled back, so start over");
  }
  check_same_tables(session);
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

}  // namespace outbox::mysql
