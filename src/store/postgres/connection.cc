#include "store/postgres/connection.h"

#include <optional>
#include <utility>

#include "base/sql_text.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/notifier.h"
#include "store/postgres/rows.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {

PooledConnection::PooledConnection(PoolHandle handle, std::shared_ptr<Notifier> notifier)
    : handle_(std::move(handle)), notifier_(std::move(notifier)) {}

PooledConnection::~PooledConnection() {
  if (getpid() == handle_->config().pid) end_transaction();
}

// If this fails, the connection is gone, and the transaction with it.
void PooledConnection::end_transaction() noexcept {
  if (std::exchange(phase_, Phase::none) == Phase::open && handle_->healthy()) {
    static_cast<void>(handle_->session().try_script("ROLLBACK"));
  }
}

// Calls `use` with the session. The first call in a transaction begins it; if the
// connection was lost while it was idle, another one will do; not if the server was given
// up, who would let the next one wait as well. Later, one that was lost
// took the transaction along: a new one must not pass for it.
template <class Use>
auto PooledConnection::use_new_or_open(const Use& use) {
  if (phase_ != Phase::announced) return use(handle_->session());
  phase_ = Phase::open;
  Session& first = handle_->session();
  first.begin_with_next_call();
  try {
    return use(first);
  } catch (const RetryableError&) {
    if (!handle_->lost() || first.given_up()) throw;
    Session& second = handle_->session();
    second.begin_with_next_call();
    return use(second);
  }
}

template <class Use>
auto PooledConnection::use_session(const Use& use) {
  if (phase_ == Phase::open && handle_->lost()) throw_lost();
  try {
    return use_new_or_open(use);
  } catch (...) {
    if (handle_->lost() || PQtransactionStatus(handle_->handle()) == PQTRANS_INERROR)
      failure_.note();
    throw;
  }
}

void PooledConnection::script(const std::string& text, const std::string& purpose) {
  use_session([&](Session& session) { session.run_script(text, purpose); });
}

PGconn* PooledConnection::handle() {
  if (phase_ == Phase::announced) script("", "begin a transaction");
  return use_session([](Session& session) { return session.handle(); });
}

void PooledConnection::throw_lost() const {
  failure_.throw_rolled_back("the connection was lost (" + where() +
                             "): nothing of the transaction happened");
}

void PooledConnection::check_in_transaction(const char* call) {
  if (!in_transaction()) {
    throw MisuseError(std::string(call) + " needs an open transaction (" + where() +
                      "): call begin() first");
  }
}

void PooledConnection::begin() {
  if (in_transaction()) {
    throw MisuseError("begin() in an open transaction (" + where() +
                      "): commit or roll back first, or use a savepoint");
  }
  phase_ = Phase::announced;
  inserted_ = false;
  failure_.clear();
  waiting_.clear();
  refs_.clear();
  savepoints_.clear();
}

void PooledConnection::commit() {
  check_in_transaction("commit()");
  const Phase before = std::exchange(phase_, Phase::none);
  if (before == Phase::announced && waiting_.empty()) return;  // there is nothing to commit
  if (!handle_->healthy()) {
    if (before == Phase::open) throw_lost();
    handle_->drop();  // lost while it was idle: another one will do
  }
  Session& current = handle_->session();
  if (before == Phase::announced) current.begin_with_next_call();
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
    failure_.throw_rolled_back("the transaction was rolled back (" + where() +
                               "): a statement in it had failed");
  }
  if (inserted_ && notifier_) notifier_->committed();
}

// In one round trip. False if the server rolled back instead.
bool PooledConnection::commit_with_events() {
  std::vector<Call> calls;
  for (const Insertion& insertion : waiting_) {
    for (const Call& call : insertion.calls()) calls.push_back(call);
  }
  calls.push_back({kCommit, Parameters()});
  std::optional<InUtf8> in_utf8;
  if (!waiting_.empty()) in_utf8.emplace(handle_->session());
  const std::vector<Result> results = handle_->session().run_together(calls);
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
  for (const Insertion& insertion : waiting_) {
    const auto landed =
        use_session([&](Session& session) { return insert_rows(session, insertion); });
    refs_.insert(refs_.end(), landed.begin(), landed.end());
  }
  waiting_.clear();
}

void PooledConnection::rollback() {
  check_in_transaction("rollback()");
  end_transaction();
}

void PooledConnection::savepoint(const std::string& name) {
  check_in_transaction("savepoint()");
  insert_now();
  savepoints_.push_back({name, refs_.size()});
  script("SAVEPOINT " + quoted_name(name), "set savepoint '" + name + "'");
}

void PooledConnection::release(const std::string& name) {
  check_in_transaction("release()");
  while (!savepoints_.empty() && savepoints_.back().savepoint != name) savepoints_.pop_back();
  if (!savepoints_.empty()) savepoints_.pop_back();
  script("RELEASE " + quoted_name(name), "release savepoint '" + name + "'");
}

void PooledConnection::rollback_to(const std::string& name) {
  check_in_transaction("rollback_to()");
  // Whatever waits was written after the last savepoint.
  waiting_.clear();
  while (!savepoints_.empty() && savepoints_.back().savepoint != name) savepoints_.pop_back();
  if (!savepoints_.empty()) refs_.resize(savepoints_.back().refs);
  script("ROLLBACK TO " + quoted_name(name), "roll back to savepoint '" + name + "'");
  failure_.clear();
}

std::int64_t PooledConnection::execute(std::string_view sql, std::span<const Parameter> values) {
  return use_session([&](Session& session) { return session.execute(sql, values); });
}

std::vector<ResultRow> PooledConnection::query(std::string_view sql,
                                               std::span<const Parameter> values) {
  return use_session([&](Session& session) { return session.query(sql, values); });
}

std::vector<RowRef> PooledConnection::insert(std::span<const Event> events,
                                             const InsertOptions& options) {
  check_in_transaction("insert()");
  inserted_ = inserted_ || !events.empty();
  const Options& store = handle_->config().options;
  if (events.empty()) return {};
  Insertion insertion(events, options, store);
  if (store.insert_at_commit) return waiting_.emplace_back(std::move(insertion)).refs();
  return use_session([&](Session& session) { return insert_rows(session, insertion); });
}

pg_conn* handle(Connection& connection) {
  if (auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("postgres::handle() needs a connection from the pool of a PostgreSQL store");
}

}  // namespace outbox::postgres
