// Events in transactions of an application that has its own SQLite connection
// and keeps it: the library neither begins nor ends anything on it.
//
//   example_own_connection [database]      default: a temporary file
#include <sqlite3.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Database = std::unique_ptr<sqlite3, Close>;

Database connect(const std::string& path) {
  sqlite3* raw = nullptr;
  const int result = sqlite3_open(path.c_str(), &raw);
  Database db(raw);
  if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(raw));
  sqlite3_busy_timeout(raw, 5'000);  // the dispatcher writes to the same file
  return db;
}

void execute(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(db));
  }
}

void run(const std::string& path) {
  const auto store = outbox::sqlite::open(path);
  outbox::Listeners on;
  on.add("Order", "OrderShipped", [](const outbox::Event& event) {
    std::cout << "shipped order " << event.aggregate_id() << ": " << event.payload() << std::endl;
  });
  outbox::Outbox box{store, on};
  box.start();

  const Database db = connect(path);
  execute(db.get(), "CREATE TABLE IF NOT EXISTS shipments (order_id TEXT, parcels INTEGER)");
  const auto mine = outbox::wrap(db.get(), *store);  // goes before the connection does

  // IMMEDIATE: the order of the events is the order in which the transactions
  // got hold of the database.
  execute(db.get(), "BEGIN IMMEDIATE");
  execute(db.get(), "INSERT INTO shipments VALUES ('7', 2)");
  auto token = box.writer().write(*mine, {.type = "OrderShipped",
                                          .aggregate_type = "Order",
                                          .aggregate_id = "7",
                                          .payload = outbox::json(R"({"parcels":2})")});
  execute(db.get(), "COMMIT");
  // The library cannot see that COMMIT. Told of it, it delivers at once;
  // untold, it would find the event a little later.
  token.committed();

  // Outside a transaction nothing is written, and the error says why.
  try {
    box.writer().write(*mine, {.type = "OrderShipped", .payload = outbox::json("{}")});
    throw std::logic_error("wrote an event without a transaction");
  } catch (const outbox::MisuseError& error) {
    std::cout << "refused: " << error.what() << '\n';
  }

  if (!box.wait_idle(20s)) throw std::runtime_error("the event was not delivered in time");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
