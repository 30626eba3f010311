#include "store/sqlite/connection.h"

#include <utility>

#include "base/sql_text.h"
#include "outbox/error.h"
#include "store/sqlite/rows.h"

namespace outbox::sqlite {

// Errors such as a full disk make SQLite roll back by itself. Without this
// check the statements that follow would each commit on their own.
void PooledConnection::check_usable() const {
  database().config().check_process();
  if (database().began() && !database().session().in_transaction()) {
    failure_.throw_rolled_back("the transaction was rolled back by SQLite after an error (" +
                               database().config().description + "): nothing of it happened");
  }
}

void PooledConnection::check_in_transaction(const char* call) const {
  if (!in_transaction()) {
    throw MisuseError(std::string(call) + " needs an open transaction (" +
                      database().config().description + "): call begin() first");
  }
  check_usable();
}

void PooledConnection::begin() {
  if (in_transaction()) {
    throw MisuseError("begin() in an open transaction (" + database().config().description +
                      "): commit or roll back first, or use a savepoint");
  }
  database().begin();
  failure_.clear();
}

template <class Work>
auto PooledConnection::watched(Work work) {
  try {
    return work();
  } catch (...) {
    if (database().began() && !database().session().in_transaction()) failure_.note();
    throw;
  }
}

void PooledConnection::commit() {
  if (!in_transaction()) check_in_transaction("commit()");
  try {
    check_usable();
  } catch (...) {
    database().rollback();
    throw;
  }
  database().commit();
}

void PooledConnection::rollback() {
  if (!in_transaction()) check_in_transaction("rollback()");
  database().rollback();
}

void PooledConnection::savepoint(const std::string& name) {
  check_in_transaction("savepoint()");
  database().run_script("SAVEPOINT " + quoted_name(name), "set savepoint '" + name + "'");
}

void PooledConnection::release(const std::string& name) {
  check_in_transaction("release()");
  database().run_script("RELEASE " + quoted_name(name), "release savepoint '" + name + "'");
}

void PooledConnection::rollback_to(const std::string& name) {
  check_in_transaction("rollback_to()");
  database().run_script("ROLLBACK TO " + quoted_name(name),
                        "roll back to savepoint '" + name + "'");
}

template <class Work>
auto PooledConnection::run_statement(std::string_view sql, std::span<const Parameter> values,
                                     Work work) {
  check_usable();
  // A statement that commits itself stands in line like a transaction.
  if (!in_transaction() && !database().session().user_statement(sql, values.size()).read_only()) {
    return database().with_turn(work);
  }
  return watched(work);
}

std::int64_t PooledConnection::execute(std::string_view sql, std::span<const Parameter> values) {
  return run_statement(sql, values, [&] { return database().session().execute(sql, values); });
}

std::vector<ResultRow> PooledConnection::query(std::string_view sql,
                                               std::span<const Parameter> values) {
  return run_statement(sql, values, [&] { return database().session().query(sql, values); });
}

std::vector<RowRef> PooledConnection::insert(std::span<const Event> events,
                                             const InsertOptions& options) {
  check_in_transaction("insert()");
  return watched([&] { return insert_rows(database().session(), events, options); });
}

}  // namespace outbox::sqlite
