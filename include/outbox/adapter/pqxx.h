// Events in transactions of libpqxx, 6.4 or later, and 7.
//
// Includes <pqxx/pqxx>, and so needs that library; link it beside outbox::postgres.
#pragma once

#include <cstdint>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <utility>
#include <vector>

#include "outbox/adapter/executor.h"
#include "outbox/error.h"
#include "outbox/spi/store.h"

namespace outbox {

// A transaction of the user's own, for Writer::write(connection, draft) and the consumer patterns:
//
//   pqxx::work tx{connection};
//   tx.exec("UPDATE ...");
//   auto mine = outbox::wrap(tx, *store);
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   tx.commit();
//   token.committed();
//
// Inside a pqxx::subtransaction, wrap that one; an event written in it is gone if it
// is aborted. Use it while `tx` is open, from one thread at a time.
//
// Throws MisuseError for a pqxx::nontransaction, which commits each statement on its
// own, and when it is used after the transaction's end. Other errors are pqxx's
// own: pqxx::unique_violation for an id that is taken, pqxx::broken_connection; and
// pqxx::in_doubt_error, from tx.commit(), for an unknown outcome: then do not call
// token.committed(). For the rest see adapter/executor.h, because libpqxx hides its PGconn.
inline std::unique_ptr<Connection> wrap(pqxx::transaction_base& tx, Store& store) {
  if (dynamic_cast<pqxx::nontransaction*>(&tx) != nullptr) {
    throw MisuseError(
        "an event cannot be written in a pqxx::nontransaction, which is not a transaction: use "
        "pqxx::work");
  }
  Executor executor = [&tx](const std::string& sql) {
    try {
      // Not with parameters: in libpqxx 6 those bypass the transaction, which then neither
      // begins nor notices that it has ended.
      const pqxx::result result = tx.exec(sql);
      ExecutorResult answer{.changed = static_cast<std::int64_t>(result.affected_rows())};
      const auto columns = result.columns();
      for (auto column = columns; column > 0; --column) {
        answer.columns.insert(answer.columns.begin(), result.column_name(column - 1));
      }
      for (const auto& row : result) {
        std::vector<Value> values;
        for (const auto& field : row) {
          if (field.is_null()) {
            values.emplace_back(nullptr);
          } else {
            values.emplace_back(std::string(field.c_str(), field.size()));
          }
        }
        answer.rows.push_back(std::move(values));
      }
      return answer;
    } catch (const pqxx::usage_error& error) {
      throw MisuseError(std::string("a statement cannot be run outside a transaction: ") +
                        error.what());
    }
  };
  return wrap(std::move(executor), store);
}

}  // namespace outbox
