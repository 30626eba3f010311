// Events in transactions of client libraries that hide their connection's handle, or have none:
// Boost.MySQL, Drogon, userver, and whatever else can run a statement on PostgreSQL, MariaDB or
// MySQL. Such a library takes part through an executor: a function that runs one statement.
//
// The statements have no parameters. Values are written into the text as literals, in plain ASCII
// whatever the settings of the connection are, and without any character that a library could
// take for a placeholder of its own (`?`, `:name`, `{}`).
//
// Only your library knows whether a transaction is open, so make sure that one is: outside, each
// statement would be committed on its own.
//
// Boost.MySQL, on a connection on which START TRANSACTION was executed:
//
//   auto mine = outbox::wrap([&](const std::string& sql) {
//     boost::mysql::results results;
//     connection.execute(sql, results);
//     outbox::ExecutorResult answer{.changed = std::int64_t(results.affected_rows()),
//                                   .last_insert_id = std::int64_t(results.last_insert_id())};
//     for (auto row : results.rows()) answer.rows.push_back(to_values(row));
//     return answer;
//   }, *store);
//
// where to_values() makes an outbox::Value of each field: nullptr, std::int64_t or std::string.
//
// userver, where only a coroutine waits, in a storages::postgres::Transaction:
//
//   auto mine = outbox::wrap([&](const std::string& sql) {
//     auto result = transaction.Execute(storages::postgres::Query{sql});
//     outbox::ExecutorResult answer{.changed = std::int64_t(result.RowsAffected())};
//     for (auto row : result) answer.rows.push_back(to_values(row));
//     return answer;
//   }, *store);
//
// Drogon, without waiting, in a transaction of drogon::orm::DbClient:
//
//   const auto executor = [tx](const std::string& sql, outbox::ExecutorDone done) {
//     tx->execSqlAsync(sql, [done](const drogon::orm::Result& r) { done(to_answer(r), nullptr); },
//                      [done](const std::exception_ptr& error) { done({}, error); });
//   };
//   outbox::write_async(writer, executor, drafts,
//       [tx](std::exception_ptr error, outbox::WriteToken token) {
//         if (error) return tx->rollback();
//         tx->setCommitCallback([token](bool done) mutable { if (done) token.committed(); });
//       });
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/row.h"
#include "outbox/spi/store.h"
#include "outbox/writer.h"

namespace outbox {

// What a statement returned.
struct ExecutorResult {
  // Numbers may stay in the text form that the server sent.
  std::vector<std::vector<Value>> rows{};

  // The names of the columns; may be left empty if nobody reads columns by name.
  std::vector<std::string> columns{};

  // How many rows an INSERT, UPDATE or DELETE changed. Always fill it in: it tells idempotent
  // consumers whether they are the first.
  std::int64_t changed = 0;

  // On MariaDB and MySQL, the number that an INSERT gave to its first row. If it is left at 0,
  // hooks are not told the numbers of the rows; nothing else changes.
  std::int64_t last_insert_id = 0;
};

// Runs one statement in the open transaction. Its exceptions reach the caller unchanged.
using Executor = std::function<ExecutorResult(const std::string& sql)>;

// The same, asynchronously: starts the statement and later calls `done` once, on any thread, with
// the result or the error. `sql` is valid during the call only.
using ExecutorDone = std::function<void(ExecutorResult result, std::exception_ptr error)>;
using AsyncExecutor = std::function<void(const std::string& sql, ExecutorDone done)>;

// A transaction of such a library as a Connection: for Writer::write(connection, draft), an Inbox,
// a VersionGuard, IdempotentCreate::join(), and statements with `?` for a value. Used by one thread
// at a time. Throws MisuseError if `store` is on another database than PostgreSQL, MariaDB or
// MySQL.
//
// It throws what the executor throws, and MisuseError if the transaction is on another database
// than the store. Non-ASCII text reaches the server as UTF-8. Bytes in a result arrive as your
// library returns them.
OUTBOX_EXPORT std::unique_ptr<Connection> wrap(Executor executor, Store& store);

// Writes events asynchronously. `done` gets the token, or the error if nothing was written; it is
// called once, from the callback of the last statement, or immediately if there is nothing to
// write. Hooks run as in Writer::write(): before_write here, after_write before `done`, the rest by
// the token.
//
// Throws for invalid drafts as Writer::write() does, and then does not call `done`. The statements
// run one after the other: until `done` is called, run nothing else in the transaction, and do not
// end it. After an error roll it back. The writer may be destroyed meanwhile, its store may not.
//
// Thread-safe, if the executor is.
using WriteDone = std::function<void(std::exception_ptr error, WriteToken token)>;
OUTBOX_EXPORT void write_async(Writer& writer, AsyncExecutor executor, std::vector<Draft> drafts,
                               WriteDone done);

}  // namespace outbox
