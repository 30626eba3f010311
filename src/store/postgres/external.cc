#include <string>
#include <utility>
#include <variant>

#include "base/quote.h"
#include "client/postgres/session.h"
#include "model/external_connection.h"
#include "outbox/error.h"
#include "store/postgres/connection.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

PGconn* checked(PGconn* conn) {
  if (conn == nullptr) throw MisuseError("outbox::wrap() was given a null PGconn");
  if (PQstatus(conn) != CONNECTION_OK) {
    throw MisuseError("outbox::wrap() was given a PGconn that is not open");
  }
  return conn;
}

// The row must go where the store's reader looks for it. Under another address it may be the
// same database all the same: it is asked once.
void check_same_database(Session& session) {
  const StoreConfig& config = config_of(session);
  const std::string place = place_of(session.handle());
  if (!config.id || config.places.contains(place)) return;
  const Result id = session.run(sql::kDatabaseId);
  if (DatabaseId{.server = id.integer(0, 0), .database = id.integer(0, 1)} != *config.id) {
    throw MisuseError("outbox::wrap() was given a connection to the database " +
                      quote(PQdb(session.handle())) + " at " + quote(PQhost(session.handle())) +
                      ", port " + quote(PQport(session.handle())) + ", and the store is the " +
                      config.description + ": connect to the same database");
  }
  config.places.add(place);
}

// Most users make one for a transaction and forget it: only who uses it again has
// the statement prepared.
class PostgresConnection final : public ExternalConnection {
 public:
  PostgresConnection(PGconn* conn, StoreConfigPtr config)
      : session_(conn, std::move(config), Session::Prepare::from_second_use) {}
  ~PostgresConnection() override {
    if (getpid() == config_of(session_).pid) session_.forget_statements();
  }

  bool in_transaction() const override { return checked_session().in_transaction(); }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    Session& session = checked_session();
    if (!session.in_transaction()) {
      const bool has_failed = PQtransactionStatus(session.handle()) == PQTRANS_INERROR;
      throw MisuseError(
          "an event was to be written " +
          std::string(has_failed ? "in a transaction that has failed" : "outside a transaction") +
          " (" + config_of(session).description + ", an external connection): " +
          (has_failed ? "roll back first" : "run BEGIN on it first"));
    }
    check_same_database(session);
    return insert_rows(session, Insertion(events, options, config_of(session).options));
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
    if (PQpipelineStatus(session_.handle()) != PQ_PIPELINE_OFF) {
      throw MisuseError("the external connection is in pipeline mode (" +
                        config_of(session_).description + "): leave it before writing events");
    }
    return session_;
  }

  mutable Session session_;
};

}  // namespace

std::unique_ptr<Connection> PostgresStore::wrap(ExternalHandle handle) {
  auto* const* conn = std::get_if<pg_conn*>(&handle);
  if (conn == nullptr) return Store::wrap(handle);  // refuses
  return std::make_unique<PostgresConnection>(checked(*conn), config());
}

}  // namespace outbox::postgres
