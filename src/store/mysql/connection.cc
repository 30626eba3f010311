#include "store/mysql/connection.h"

#include <chrono>
#include <utility>

#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/mysql/rows.h"

namespace outbox::mysql {
namespace {

using std::chrono::steady_clock;

// Whatever the session's settings are: BEGIN opens a block with sql_mode ORACLE, and
// completion_type may begin the next transaction at once, or close the connection.
constexpr std::string_view kBegin = "START TRANSACTION";
constexpr std::string_view kCommit = "COMMIT AND NO CHAIN NO RELEASE";
constexpr std::string_view kRollback = "ROLLBACK AND NO CHAIN NO RELEASE";

// Less than the shortest limit of a call; a connection that was closed fails sooner.
constexpr std::chrono::seconds kNoticedAtOnce{1};

}  // namespace

PooledConnection::PooledConnection(PoolHandle handle) : handle_(std::move(handle)) {}

PooledConnection::~PooledConnection() {
  // If this fails, the pool closes the connection, and the server rolls back.
  if (began_ && getpid() == handle_->config().pid && handle_->healthy()) {
    handle_->session().try_text(kRollback);
  }
}

// A connection that was lost took its transaction along: a new one must not pass
// for it.
Session& PooledConnection::session() {
  if (began_ && handle_->lost()) throw_lost();
  if (began_ && rolled_back_) throw_rolled_back();
  return handle_->session();
}

void PooledConnection::throw_lost() const {
  failure_.throw_rolled_back("the connection was lost (" + where() +
                             "): nothing of the transaction happened");
}

void PooledConnection::throw_rolled_back() const {
  failure_.throw_rolled_back("the transaction was rolled back (" + where() +
                             "): a statement in it had failed");
}

void PooledConnection::check_in_transaction(const char* call) const {
  if (began_) return;
  throw MisuseError(std::string(call) + " needs an open transaction (" + where() +
                    "): call begin() first");
}

void PooledConnection::begin() {
  if (began_) {
    throw MisuseError("begin() in an open transaction (" + where() +
                      "): commit or roll back first, or use a savepoint");
  }
  constexpr std::string_view kPurpose = "begin a transaction";
  const auto start = steady_clock::now();
  try {
    session().run_text(kBegin, kPurpose);
  } catch (const RetryableError&) {
    // Nothing has been done on it: if the connection was lost while it was idle,
    // another one will do. Not if the server was silent for as long as it may be.
    if (!handle_->lost() || steady_clock::now() - start >= kNoticedAtOnce) throw;
    session().run_text(kBegin, kPurpose);
  }
  session().forget_failure();
  began_ = true;
  rolled_back_ = false;
  failure_.clear();
}

void PooledConnection::commit() {
  check_in_transaction("commit()");
  began_ = false;
  if (!handle_->healthy()) throw_lost();
  Session& current = handle_->session();
  if (rolled_back_) {
    current.try_text(kRollback);
    throw_rolled_back();
  }
  try {
    current.run_text(kCommit, "commit a transaction");
  } catch (const Error& error) {
    if (current.last_failure().undoes_commit()) {
      current.undo(kRollback);
      throw;
    }
    const bool lost = current.last_failure().lost_connection();
    const std::string reason = error.what();
    handle_->drop();  // whatever state it is in
    throw OutcomeUnknownError(std::string(lost ? "the connection was lost during COMMIT ("
                                               : "the server cannot tell what became of COMMIT (") +
                              where() + "): the transaction may have happened; ask the database (" +
                              reason + ")");
  }
}

void PooledConnection::rollback() {
  check_in_transaction("rollback()");
  began_ = false;
  // If it fails, the connection is gone, and the transaction with it.
  if (handle_->healthy()) handle_->session().try_text(kRollback);
}

void PooledConnection::savepoint(const std::string& name) {
  check_in_transaction("savepoint()");
  watched([&](Session& on) {
    return on.run_text("SAVEPOINT " + quoted_name(name), "set savepoint '" + name + "'");
  });
}

void PooledConnection::release(const std::string& name) {
  check_in_transaction("release()");
  watched([&](Session& on) {
    return on.run_text("RELEASE SAVEPOINT " + quoted_name(name),
                       "release savepoint '" + name + "'");
  });
}

void PooledConnection::rollback_to(const std::string& name) {
  check_in_transaction("rollback_to()");
  watched([&](Session& on) {
    return on.run_text("ROLLBACK TO SAVEPOINT " + quoted_name(name),
                       "roll back to savepoint '" + name + "'");
  });
}

std::int64_t PooledConnection::execute(std::string_view sql, std::span<const Parameter> values) {
  return watched([&](Session& on) { return on.execute(sql, values); });
}

std::vector<ResultRow> PooledConnection::query(std::string_view sql,
                                               std::span<const Parameter> values) {
  return watched([&](Session& on) { return on.query(sql, values); });
}

std::vector<RowRef> PooledConnection::insert(std::span<const Event> events,
                                             const InsertOptions& options) {
  check_in_transaction("insert()");
  return watched([&](Session& on) { return insert_rows(on, events, options); });
}

st_mysql* handle(Connection& connection) {
  if (auto* pooled = dynamic_cast<PooledConnection*>(&connection)) return pooled->handle();
  throw MisuseError("mysql::handle() needs a connection from the pool of a MySQL store");
}

}  // namespace outbox::mysql
