// A consumer that is told of an order three times and bills it once, and a copy of
// the order that late news does not change.
//
//   example_inbox [database]      default: a temporary file
#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;

// The application's own tables, beside the library's, which open() creates.
void create_tables(outbox::Writer& writer) {
  auto tx = writer.begin();
  tx.execute("CREATE TABLE invoice (customer TEXT)");
  tx.execute("CREATE TABLE order_copy (id TEXT PRIMARY KEY, state TEXT)");
  tx.commit();
}

std::int64_t invoices(outbox::Store& store) {
  const auto rows = store.connect()->query("SELECT count(*) FROM invoice", {});
  return rows.at(0).get<std::int64_t>(0);
}

// Deliver an order, and then again: as after a crash, by hand.
void bill_once(const std::shared_ptr<outbox::Store>& store, outbox::Writer& writer) {
  // [listener]
  outbox::Inbox inbox{store};
  inbox.start();  // forgets what is older than two weeks
  outbox::Listeners on;
  on.add("Customer", "OrderPlaced",
         inbox.listener(writer, "billing", [](outbox::Transaction& tx, const outbox::Event& event) {
           tx.execute("INSERT INTO invoice (customer) VALUES (?)", event.aggregate_id());
           tx.write({.type = "Billed",
                     .aggregate_type = "Invoice",
                     .aggregate_id = event.aggregate_id(),
                     .payload = outbox::json("{}")});
         }));
  // [/listener]
  on.add("Invoice", "Billed", [](const outbox::Event& event) {
    std::cout << "billed customer " << event.aggregate_id() << std::endl;
  });
  outbox::Outbox box{store, on};
  box.start();
  std::string id;
  {
    auto tx = box.begin();
    id = tx.write({.type = "OrderPlaced",
                   .aggregate_type = "Customer",
                   .aggregate_id = "42",
                   .payload = outbox::json("{}")});
    tx.commit();
  }
  for (int delivery = 1; delivery <= 3; ++delivery) {
    if (delivery > 1) store->admin().replay(id);
    if (!box.wait_idle(20s)) throw std::runtime_error("the event was not delivered in time");
  }
  std::cout << "delivered 3 times, invoices: " << invoices(*store) << std::endl;
}

// What a copy of an order is told, the second news too late.
void keep_a_copy(const std::shared_ptr<outbox::Store>& store, outbox::Writer& writer) {
  outbox::VersionGuard guard{store};
  const auto hear = [&](const std::string& state, std::int64_t version) {
    // [guard]
    auto tx = writer.begin();
    if (guard.advance(tx, "search", "Order", "7", version)) {
      tx.execute("INSERT OR REPLACE INTO order_copy (id, state) VALUES (?, ?)", "7", state);
    }
    tx.commit();
    // [/guard]
  };
  hear("placed", 1);
  hear("shipped", 3);
  hear("paid", 2);
  const auto rows = store->connect()->query("SELECT state FROM order_copy", {});
  std::cout << "order 7 is " << rows.at(0).get<std::string>(0) << std::endl;
}

void run(const std::string& path) {
  const auto store = outbox::sqlite::open(path);
  outbox::Writer writer{store};
  create_tables(writer);
  bill_once(store, writer);
  keep_a_copy(store, writer);
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
