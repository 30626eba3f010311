// [first-event]
#include <chrono>
#include <iostream>
#include <string>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"

void bill(const outbox::Event& event) {
  std::cout << "billing order " << event.aggregate_id() << ": " << event.payload() << std::endl;
}

int main() {
  auto db = outbox::sqlite::open("shop.db");  // creates the file and the library's tables

  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [](const outbox::Event& event) { bill(event); });

  outbox::Outbox box{db, on};
  box.start();

  const std::string order = outbox::new_id();
  auto tx = box.begin();
  tx.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents INTEGER)");
  tx.execute("INSERT INTO orders (id, cents) VALUES (?, ?)", order, 1999);
  tx.write({.type = "OrderPlaced",
            .aggregate_type = "Order",
            .aggregate_id = order,
            .payload = outbox::json(R"({"cents":1999})")});
  tx.commit();

  // A service would go on. This program waits until nothing is left to deliver.
  const bool delivered = box.wait_idle(std::chrono::seconds{10});
  return delivered ? 0 : 1;
}
// [/first-event]
