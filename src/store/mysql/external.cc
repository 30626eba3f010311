#include <string>
#include <variant>

#include "base/quote.h"
#include "client/mysql/session.h"
#include "model/external_connection.h"
#include "outbox/error.h"
#include "store/mysql/connection.h"
#include "store/mysql/mysql_store.h"

namespace outbox::mysql {
namespace {

MYSQL* checked(MYSQL* conn) {
  if (conn == nullptr) throw MisuseError("outbox::wrap() was given a null MYSQL");
  if (mysql_get_socket(conn) == MARIADB_INVALID_SOCKET) {
    throw MisuseError("outbox::wrap() was given a MYSQL that is not connected");
  }
  return conn;
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
    throw MisuseError("outbox::wrap() was given a connection to another server (" + quote(place) +
                      "), and the store is the " + config.description +
                      ": its tables there are others; connect to the same server");
  }
  config.places.add(place);
}

class MysqlConnection final : public ExternalConnection {
 public:
  MysqlConnection(MYSQL* conn, const StoreConfigPtr& config)
      : session_(conn, config, config->max_packet, Session::Prepare::never) {}

  // An error does not say what it has left of the transaction (nothing, if it was a
  // deadlock); the next answer does.
  bool in_transaction() const override {
    // Errors say nothing about the transaction. That of a statement of ours was forgotten by
    // the library when the statement was closed.
    if (mysql_errno(session_.handle()) != 0 || session_.last_failure().ended_transaction()) {
      checked_session().run_text("DO 0", "look at the connection");
      session_.forget_failure();
    }
    unsigned status = 0;
    mariadb_get_infov(session_.handle(), MARIADB_CONNECTION_SERVER_STATUS, &status);
    return (status & SERVER_STATUS_IN_TRANS) != 0 || (status & SERVER_STATUS_AUTOCOMMIT) == 0;
  }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    Session& session = checked_session();
    if (!in_transaction()) {
      throw MisuseError("an event was to be written outside a transaction (" +
                        config_of(session).description +
                        ", an external connection): run BEGIN on it first; after a deadlock the "
                        "server has rolled back, so start over");
    }
    check_same_tables(session);
    return insert_rows(session, events, options);
  }

  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override {
    return checked_session().execute(sql, values);
  }
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override {
    return checked_session().query(sql, values);
  }

 private:
  Session& checked_session() const {
    config_of(session_).check_process();
    return session_;
  }

  mutable Session session_;
};

}  // namespace

std::unique_ptr<Connection> MysqlStore::wrap(ExternalHandle handle) {
  auto* const* conn = std::get_if<st_mysql*>(&handle);
  if (conn == nullptr) return Store::wrap(handle);  // refuses
  return std::make_unique<MysqlConnection>(checked(*conn), config());
}

}  // namespace outbox::mysql
