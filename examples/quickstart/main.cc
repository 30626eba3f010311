// An order and its event in one transaction; the event is delivered afterwards.
//
//   example_quickstart [database]      default: a temporary file
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;

// What an application does with an event. It may be called more than once for
// the same event after a crash: recognise repeats by event.id().
void bill(const outbox::Event& event) {
  std::cout << "billed customer " << event.aggregate_id() << ": " << event.payload() << std::endl;
}

// The application's own table, beside the library's, which open() creates.
void create_tables(const std::string& path) {
  outbox::Writer writer{outbox::sqlite::open(path)};
  auto tx = writer.begin();
  tx.execute("CREATE TABLE IF NOT EXISTS orders (customer TEXT, cents INTEGER)");
  tx.commit();
}

void run(const std::string& path) {
  create_tables(path);

  // [snippet]
  auto db = outbox::sqlite::open(path);
  outbox::Listeners on;
  on.add("Customer", "OrderPlaced", [](const outbox::Event& event) { bill(event); });
  outbox::Outbox box{db, on, {.workers = 8}};
  box.start();

  auto tx = box.begin();  // rolls back unless committed
  tx.execute("INSERT INTO orders (customer, cents) VALUES (?, ?)", "42", 1999);
  tx.write({.type = "OrderPlaced",
            .aggregate_type = "Customer",
            .aggregate_id = "42",
            .payload = outbox::json(R"({"cents":1999})")});
  tx.commit();  // and the listener is called
  // [/snippet]

  {
    auto regretted = box.begin();
    regretted.execute("INSERT INTO orders (customer, cents) VALUES (?, ?)", "13", 5);
    regretted.write({.type = "OrderPlaced",
                     .aggregate_type = "Customer",
                     .aggregate_id = "13",
                     .payload = outbox::json(R"({"cents":5})")});
  }  // not committed: neither the order nor its event ever existed

  if (!box.wait_idle(20s)) throw std::runtime_error("the event was not delivered in time");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
