#include "store/postgres/connection.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/sql_text.h"
#include "client/postgres/notifications.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

// Rows a statement: the arrays of more would only cost memory.
constexpr std::size_t kManyRows = 500;

Parameters parameters_of(const Event& event, std::int64_t hold, OptionalText owner,
                         const JsonCodec& codec) {
  const std::string headers = encoded_headers(event, codec);
  const std::string_view payload = event.payload();
  return Parameters(
      event.id(), event.type(), event.aggregate_type(), null_if_empty(event.aggregate_id()),
      null_if_empty(event.tenant_id()), content_type_of(event), null_if_empty(headers),
      event.is_json() ? OptionalText(payload) : std::nullopt,
      event.is_json() ? std::nullopt : std::optional(Bytes{payload}), event.occurred_at(),
      available_of(event, hold), inserted_hold(event, hold), hold == 0 ? owner : std::nullopt);
}

}  // namespace

InUtf8::InUtf8(Session& session) : session_(session) {
  const char* set = PQparameterStatus(session.handle(), "client_encoding");
  if (set == nullptr) return;
  // Whatever alias it was set by: UNICODE is UTF8.
  if (std::string_view(pg_encoding_to_char(PQclientEncoding(session.handle()))) == "UTF8") return;
  before_ = set;
  session.run_script("SET LOCAL client_encoding TO 'UTF8'", "switch to UTF-8");
}

InUtf8::~InUtf8() {
  // The end of the transaction, or a rollback, sets it back by itself.
  if (before_.empty() || !session_.in_transaction()) return;
  static_cast<void>(
      session_.try_script(("SET LOCAL client_encoding TO '" + before_ + "'").c_str()));
}

Insertion::Insertion(std::span<const Event> events, const InsertOptions& options,
                     const Options& store)
    : holds_(holds_of(events, store.clock->now())) {
  const JsonCodec& codec = *store.codec;
  const OptionalText owner = null_if_empty(options.owner);
  if (events.size() == 1) {
    calls_.push_back({sql::kInsert, parameters_of(events.front(), holds_.front(), owner, codec)});
    return;
  }
  for (std::size_t at = 0; at < events.size(); at += kManyRows) {
    const std::size_t count = std::min(events.size() - at, kManyRows);
    calls_.push_back({sql::kInsertMany,
                      columns_of<Parameters>(
                          events.subspan(at, count),
                          std::span<const std::int64_t>(holds_).subspan(at, count), owner, codec)});
  }
}

std::vector<RowRef> Insertion::refs() const {
  std::vector<RowRef> refs;
  for (const std::int64_t hold : holds_) refs.push_back({.hold = hold});
  return refs;
}

std::vector<RowRef> Insertion::refs(std::span<const Result> results) const {
  std::vector<RowRef> refs;
  for (const Result& result : results) {
    for (int row = 0; row < result.rows(); ++row) {
      refs.push_back({.seq = result.integer(row, 0),
                      .shard = static_cast<int>(result.integer(row, 1)),
                      .hold = holds_[refs.size()]});
    }
  }
  return refs;
}

std::vector<RowRef> insert_rows(Session& session, const Insertion& insertion) {
  const InUtf8 in_utf8(session);
  std::vector<Result> results;
  for (const Call& call : insertion.calls()) {
    results.push_back(session.run(call.sql, call.parameters));
  }
  return insertion.refs(results);
}

PooledConnection::PooledConnection(PoolHandle handle, std::shared_ptr<Notifier> notifier)
    : handle_(std::move(handle)), notifier_(std::move(notifier)) {}

PooledConnection::~PooledConnection() {
  if (getpid() == config_of(*handle_).pid) end_transaction();
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
  if (inserted_ && notifier_) notifier_->committed(told_);
}

// In one round trip. False if the server rolled back instead.
bool PooledConnection::commit_with_events() {
  const auto committed = [](const Result& result) {
    return std::string_view(PQcmdStatus(result.handle())) == "COMMIT";
  };
  // One message, where a pipeline takes five.
  if (waiting_.empty()) {
    return committed(handle_->session().run_script(std::string(kCommit.text), kCommit.purpose));
  }
  std::vector<Call> calls;
  for (const Insertion& insertion : waiting_) {
    for (const Call& call : insertion.calls()) calls.push_back(call);
  }
  calls.push_back({kCommit, Parameters()});
  const InUtf8 in_utf8(handle_->session());
  const std::vector<Result> results = handle_->session().run_together(calls);
  std::span<const Result> rest(results);
  for (const Insertion& insertion : waiting_) {
    const auto rows = insertion.refs(rest.first(insertion.calls().size()));
    refs_.insert(refs_.end(), rows.begin(), rows.end());
    rest = rest.subspan(insertion.calls().size());
  }
  return committed(rest.front());
}

// What a savepoint may have to keep must be in the table before it is set.
void PooledConnection::insert_now() {
  for (const Insertion& insertion : waiting_) {
    const auto rows =
        use_session([&](Session& session) { return insert_rows(session, insertion); });
    refs_.insert(refs_.end(), rows.begin(), rows.end());
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
  if (!events.empty()) {
    told_ = !inserted_ || told_ == options.told ? options.told : nullptr;
    inserted_ = true;
  }
  const Options& store = config_of(*handle_).options;
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
