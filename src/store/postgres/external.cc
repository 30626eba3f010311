#include <string>

#include "base/quote.h"
#include "client/postgres/session.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/rows.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

StoreConfigPtr config_of_store(Store& store) {
  if (const auto* postgres_store = dynamic_cast<PostgresStore*>(&store)) {
    return postgres_store->config();
  }
  throw MisuseError("postgres::ExternalConnection needs a PostgreSQL store, not " +
                    store.description());
}

PGconn* checked(PGconn* conn) {
  if (conn == nullptr)
    throw MisuseError("postgres::ExternalConnection was given a null connection");
  if (PQstatus(conn) != CONNECTION_OK) {
    throw MisuseError("postgres::ExternalConnection was given a connection that is not open");
  }
  return conn;
}

[[noreturn]] void refuse(const char* call) {
  throw MisuseError(std::string("postgres::ExternalConnection::") + call +
                    "(): the transaction on an external connection is its owner's; begin and end "
                    "it with libpq's own API");
}

// The row must go where the store's reader looks for it. Under another address it may be the
// same database all the same: it is asked once.
void check_same_database(Session& session) {
  const StoreConfig& config = config_of(session);
  const std::string place = place_of(session.handle());
  if (!config.id || config.places.contains(place)) return;
  const Result id = session.run(sql::kDatabaseId);
  if (DatabaseId{.server = id.integer(0, 0), .database = id.integer(0, 1)} != *config.id) {
    throw MisuseError("postgres::ExternalConnection was given a connection to the database " +
                      quote(PQdb(session.handle())) + " at " + quote(PQhost(session.handle())) +
                      ", port " + quote(PQport(session.handle())) + ", and the store is the " +
                      config.description + ": connect to the same database");
  }
  config.places.add(place);
}

}  // namespace

// Most users make one for a transaction and forget it: only who uses it again has
// the statement prepared.
class ExternalConnection::Impl {
 public:
  Impl(PGconn* conn, StoreConfigPtr config)
      : session_(conn, std::move(config), Session::Prepare::from_second_use) {}
  ~Impl() {
    if (getpid() == config_of(session_).pid) session_.forget_statements();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Session& session() {
    config_of(session_).check_process();
    if (PQpipelineStatus(session_.handle()) != PQ_PIPELINE_OFF) {
      throw MisuseError("the external connection is in pipeline mode (" +
                        config_of(session_).description + "): leave it before writing events");
    }
    return session_;
  }
  const Session& session() const { return session_; }

 private:
  Session session_;
};

ExternalConnection::ExternalConnection(pg_conn* conn, Store& store)
    : impl_(std::make_unique<Impl>(checked(conn), config_of_store(store))) {}

ExternalConnection::~ExternalConnection() = default;

bool ExternalConnection::in_transaction() const { return impl_->session().in_transaction(); }

std::vector<RowRef> ExternalConnection::insert(std::span<const Event> events,
                                               const InsertOptions& options) {
  Session& session = impl_->session();
  if (!session.in_transaction()) {
    const bool has_failed = PQtransactionStatus(session.handle()) == PQTRANS_INERROR;
    throw MisuseError(
        "an event was to be written " +
        std::string(has_failed ? "in a transaction that has failed" : "outside a transaction") +
        " (" + config_of(session).description +
        ", an external connection): " + (has_failed ? "roll back first" : "run BEGIN on it first"));
  }
  check_same_database(session);
  return insert_rows(session, Insertion(events, options, config_of(session).options));
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

}  // namespace outbox::postgres
