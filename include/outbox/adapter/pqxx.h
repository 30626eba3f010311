// Events in transactions of libpqxx, 6.4 or later.
//
// Includes <pqxx/pqxx>, and so needs that library; link it beside outbox::postgres.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "outbox/error.h"
#include "outbox/postgres.h"
#include "outbox/spi/store.h"

namespace outbox {

// A transaction of the user's own, for Writer::write(connection, draft):
//
//   pqxx::work tx{connection};
//   tx.exec("UPDATE ...");
//   auto mine = outbox::wrap(tx, *store);
//   auto token = writer.write(*mine, {.type = "OrderPlaced", ...});
//   tx.commit();
//   token.committed();
//
// Inside a pqxx::subtransaction wrap that one; an event written in it is gone if it
// is aborted. Used while `tx` is open, by one thread at a time.
//
// Throws MisuseError for a pqxx::nontransaction, which commits each statement by
// itself, and when it is used after the transaction's end. Other errors are pqxx's
// own, which its users know how to tell apart: pqxx::unique_violation for an id that is
// taken, pqxx::broken_connection; and pqxx::in_doubt_error, from tx.commit(), for an
// outcome that is unknown: then leave token.committed() out.
inline std::unique_ptr<Connection> wrap(pqxx::transaction_base& tx, Store& store) {
  if (dynamic_cast<pqxx::nontransaction*>(&tx) != nullptr) {
    throw MisuseError(
        "an event was to be written in a pqxx::nontransaction, which is no transaction: use "
        "pqxx::work");
  }
  return postgres::via_executor(store, [&tx](const std::string& sql) {
    try {
      // Not by parameters: in libpqxx 6 those go past the transaction, which then neither
      // begins nor notices that it has ended.
      const pqxx::result result = tx.exec(sql);
      std::vector<std::array<std::int64_t, 2>> rows;
      for (const auto& row : result) {
        rows.push_back({row[0].as<std::int64_t>(), row[1].as<std::int64_t>()});
      }
      return rows;
    } catch (const pqxx::usage_error& error) {
      throw MisuseError(std::string("an event was to be written outside a transaction: ") +
                        error.what());
    }
  });
}

}  // namespace outbox
