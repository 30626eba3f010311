#include "store/postgres/connection.h"

#include <utility>

#include "core/sql_text.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/notifier.h"
#include "store/postgres/rows.h"

namespace outbox::postgres {

PooledConnection::PooledConnection(Lease lease, std::shared_ptr<Notifier> notifier)
    : lease_(std::move(lease)), notifier_(std::move(notifier)) {}

PooledConnection::~PooledConnection() {
  // If this fails, the pool closes the connection, and the server rolls back.
  if (began_ && getpid() == lease_->environment().pid && lease_->healthy()) {
    static_cast<void>(lease_->session().try_script("ROLLBACK"));
  }
}

// A connection that was lost took its transaction along: a new one must not pass
// for it.
Session& PooledConnection::session() {
  if (began_ && !lease_->healthy()) throw_lost();
  return lease_->session();
}

void PooledConnection::throw_lost() const {
  throw RetryableError("the connection was lost (" + where() +
                       "): nothing of the transaction happened; start it over");
}

void PooledConnection::check_in_transaction(const char* call) {
  if (!began_) {
    throw MisuseError(std::string(call) + " needs an open transaction (" + where() +
                      "): call begin() first");
  }
}

void PooledConnection::begin() {
  if (began_) {
    throw MisuseError("begin() in an open transaction (" + where() +
                      "): commit or roll back first, or use a savepoint");
  }
  try {
    session().run_script("BEGIN", "begin a transaction");
  } catch (const RetryableError&) {
    // Nothing has been done on it: if the connection was lost while it was idle,
    // another one will do.
    if (lease_->healthy()) throw;
    session().run_script("BEGIN", "begin a transaction");
  }
  began_ = true;
  inserted_ = false;
}

void PooledConnection::commit() {
  check_in_transaction("commit()");
  began_ = false;
  if (!lease_->healthy()) throw_lost();
  Session& current = lease_->session();
  const ResultHandle result = current.try_script("COMMIT");
  const bool answered = result && PQresultStatus(result.get()) == PGRES_COMMAND_OK;
  if (answered && std::string_view(PQcmdStatus(result.get())) == "COMMIT") {
    if (inserted_ && notifier_) notifier_->committed();
    return;
  }
  if (answered) {
    throw RetryableError("the transaction was rolled back (" + where() +
                         "): a statement in it had failed; start it over");
  }
  if (current.broken()) {
    throw OutcomeUnknownError("the connection was lost during COMMIT (" + where() +
                              "): the transaction may have happened; ask the database (" +
                              message_of(current.handle(), result.get()) + ")");
  }
  throw_failure(current.handle(), result.get(), "commit the transaction", where());
}

void PooledConnection::rollback() {
  check_in_transaction("rollback()");
  began_ = false;
  // If it fails, the connection is gone, and the transaction with it.
  if (lease_->healthy()) static_cast<void>(lease_->session().try_script("ROLLBACK"));
}

void PooledConnection::savepoint(const std::string& name) {
  check_in_transaction("savepoint()");
  session().run_script("SAVEPOINT " + quoted_name(name), "set savepoint '" + name + "'");
}

void PooledConnection::release(const std::string& name) {
  check_in_transaction("release()");
  session().run_script("RELEASE " + quoted_name(name), "release savepoint '" + name + "'");
}

void PooledConnection::rollback_to(const std::string& name) {
  check_in_transaction("rollback_to()");
  session().run_script("ROLLBACK TO " + quoted_name(name), "roll back to savepoint '" + name + "'");
}

std::int64_t PooledConnection::execute(std::string_view sql, std::span<const Value> values) {
  return session().execute(sql, values);
}

std::vector<ResultRow> PooledConnection::query(std::string_view sql,
                                               std::span<const Value> values) {
  return session().query(sql, values);
}

std::vector<RowRef> PooledConnection::insert(std::span<const Event> events,
                                             const InsertOptions& options) {
  check_in_transaction("insert()");
  inserted_ = inserted_ || !events.empty();
  return insert_rows(session(), events, options);
}

pg_conn* handle(Connection& connection) {
  if (auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("postgres::handle() needs a connection from the pool of a PostgreSQL store");
}

}  // namespace outbox::postgres
