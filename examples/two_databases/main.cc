// Two databases, each with an outbox of its own; the listener is shared.
//
//   example_two_databases [folder]      default: a temporary folder
//
// An event must be in the transaction of the data that it speaks of, so every
// database has its own table of events, and its own stack that delivers them.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/telemetry/prometheus.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// Keeps nothing between two calls, so both stacks may call it at once. One
// string per line, because their workers print side by side.
void announce(const outbox::Event& event) {
  std::cout << event.aggregate_type() + "/" + event.type() + " of " + event.aggregate_id() + ": " +
                   event.payload() + "\n"
            << std::flush;
}

void run(const fs::path& folder) {
  const auto shared = outbox::listener(announce);
  const auto audit = outbox::before([](const outbox::Event& event) {
    std::cout << "audit: about to deliver " + event.type() + "\n" << std::flush;
  });
  // One registry for both; a prefix each keeps their metrics apart.
  outbox::prometheus::Registry registry;

  // What is not shared: the store, the routing table, the workers, the name.
  outbox::Listeners on_orders;
  on_orders.add("Order", "OrderPlaced", shared).add("Order", "OrderShipped", shared);
  outbox::Outbox orders{outbox::sqlite::open((folder / "orders.db").string()),
                        on_orders,
                        {.interceptors = {audit},
                         .name = "orders",
                         .metrics = registry.stack({.prefix = "orders_outbox_"})}};

  outbox::Listeners on_inventory;
  on_inventory.add("Inventory", "StockReserved", shared).add("Inventory", "StockDepleted", shared);
  outbox::Outbox inventory{outbox::sqlite::open((folder / "inventory.db").string()),
                           on_inventory,
                           {.interceptors = {audit},
                            .name = "inventory",
                            .metrics = registry.stack({.prefix = "inventory_outbox_"})}};
  orders.start();
  inventory.start();

  auto order = orders.begin();
  order.write({.type = "OrderPlaced",
               .aggregate_type = "Order",
               .aggregate_id = "order-1",
               .payload = outbox::json(R"({"item":"widget","qty":5})")});
  order.write({.type = "OrderShipped",
               .aggregate_type = "Order",
               .aggregate_id = "order-1",
               .payload = outbox::json(R"({"parcels":1})")});
  // A transaction of another database: it ends by itself. What has to happen in
  // both because one did is what events are for: let a listener write there.
  auto stock = inventory.begin();
  stock.write({.type = "StockReserved",
               .aggregate_type = "Inventory",
               .aggregate_id = "widget",
               .payload = outbox::json(R"({"qty":5})")});
  stock.commit();
  order.commit();

  if (!orders.wait_idle(20s) || !inventory.wait_idle(20s)) {
    throw std::runtime_error("an event was not delivered in time");
  }
  orders.close();
  inventory.close();
  const std::string metrics = registry.text();
  for (const char* line :
       {"\norders_outbox_success_total 2", "\ninventory_outbox_success_total 1"}) {
    if (metrics.find(line) == std::string::npos) {
      throw std::runtime_error("the metrics should have a line " + std::string(line + 1));
    }
    std::cout << line + 1 << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.path());
}
