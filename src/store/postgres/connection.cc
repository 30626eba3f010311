#include "store/postgres/connection.h"

#include <optional>
#include <utility>

#include "core/sql_text.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/notifier.h"
#include "store/postgres/rows.h"
#include "store/postgres/sql.h"

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
  waiting_.clear();
  refs_.clear();
  marks_.clear();
}

void PooledConnection::commit() {
  check_in_transaction("commit()");
  began_ = false;
  if (!lease_->healthy()) throw_lost();
  Session& current = lease_->session();
  bool committed = false;
  try {
    committed = commit_with_events();
  } catch (const Error& error) {
    if (current.broken()) {
      throw OutcomeUnknownError("the connection was lost during COMMIT (" + where() +
                                "): the transaction may have happened; ask the database (" +
                                error.what() + ")");
    }
    static_cast<void>(current.try_script("ROLLBACK"));
    throw;
  }
  if (!committed) {
    throw RetryableError("the transaction was rolled back (" + where() +
                         "): a statement in it had failed; start it over");
  }
  if (inserted_ && notifier_) notifier_->committed();
}

// In one round trip. False if the server rolled back instead.
bool PooledConnection::commit_with_events() {
  std::vector<Call> calls;
  for (const Insertion& insertion : waiting_) {
    for (const Call& call : insertion.calls()) calls.push_back(call);
  }
  calls.push_back({sql::kCommit, Parameters()});
  std::optional<InUtf8> in_utf8;
  if (!waiting_.empty()) in_utf8.emplace(lease_->session());
  const std::vector<Result> results = lease_->session().run_together(calls);
  std::span<const Result> rest(results);
  for (const Insertion& insertion : waiting_) {
    const auto landed = insertion.refs(rest.first(insertion.calls().size()));
    refs_.insert(refs_.end(), landed.begin(), landed.end());
    rest = rest.subspan(insertion.calls().size());
  }
  return std::string_view(PQcmdStatus(rest.front().handle())) == "COMMIT";
}

// What a savepoint may have to keep must be in the table before it is set.
void PooledConnection::insert_now() {
  if (waiting_.empty()) return;
  const InUtf8 in_utf8(session());
  for (const Insertion& insertion : waiting_) {
    std::vector<Result> results;
    for (const Call& call : insertion.calls()) {
      results.push_back(session().run(call.sql, call.parameters));
    }
    const auto landed = insertion.refs(results);
    refs_.insert(refs_.end(), landed.begin(), landed.end());
  }
  waiting_.clear();
}

void PooledConnection::rollback() {
  check_in_transaction("rollback()");
  began_ = false;
  // If it fails, the connection is gone, and the transaction with it.
  if (lease_->healthy()) static_cast<void>(lease_->session().try_script("ROLLBACK"));
}

void PooledConnection::savepoint(const std::string& name) {
  check_in_transaction("savepoint()");
  insert_now();
  marks_.push_back({name, refs_.size()});
  session().run_script("SAVEPOINT " + quoted_name(name), "set savepoint '" + name + "'");
}

void PooledConnection::release(const std::string& name) {
  check_in_transaction("release()");
  while (!marks_.empty() && marks_.back().savepoint != name) marks_.pop_back();
  if (!marks_.empty()) marks_.pop_back();
  session().run_script("RELEASE " + quoted_name(name), "release savepoint '" + name + "'");
}

void PooledConnection::rollback_to(const std::string& name) {
  check_in_transaction("rollback_to()");
  // Whatever waits was written after the last savepoint.
  waiting_.clear();
  while (!marks_.empty() && marks_.back().savepoint != name) marks_.pop_back();
  if (!marks_.empty()) refs_.resize(marks_.back().refs);
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
  const Options& store = lease_->environment().options;
  if (!store.insert_at_commit) return insert_rows(session(), events, options);
  if (events.empty()) return {};
  return waiting_.emplace_back(events, options, *store.codec, store.clock->now()).refs();
}

pg_conn* handle(Connection& connection) {
  if (auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("postgres::handle() needs a connection from the pool of a PostgreSQL store");
}

}  // namespace outbox::postgres
