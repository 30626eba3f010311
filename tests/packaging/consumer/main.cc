// A program of somebody else: writes an event on SQLite and receives it.
//
//   consumer <database>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/version.h"

namespace {

using namespace std::chrono_literals;

void check(bool fine, const char* what) {
  if (!fine) throw std::runtime_error(std::string("not true: ") + what);
}

void sends_and_receives(const std::string& path) {
  auto heard = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", heard);
  outbox::Outbox box{outbox::sqlite::open(path), on};
  box.start();
  auto tx = box.begin();
  tx.execute("CREATE TABLE orders (id INTEGER, note TEXT)");
  tx.execute("INSERT INTO orders (id, note) VALUES (?, ?)", 42, nullptr);
  tx.write({.type = "OrderPlaced",
            .aggregate_type = "Order",
            .aggregate_id = "42",
            .payload = outbox::json(R"({"cents":1999})")});
  tx.commit();
  check(box.wait_idle(20s), "the event was delivered in time");
  check(heard->count() == 1, "there was one event");
  std::cout << "received " << heard->calls().front().event.payload() << '\n';
}

// The kinds of errors keep their identity on the way out of the library ...
void catches_errors(const std::string& path) {
  try {
    outbox::sqlite::open(path, {.table = "no table; at all"});
    check(false, "a bad option is refused");
  } catch (const outbox::MisuseError&) {
  }
  try {
    outbox::sqlite::open("/no/such/folder/x.db");
    check(false, "a missing folder is refused");
  } catch (const std::exception& error) {
    check(dynamic_cast<const outbox::Error*>(&error) != nullptr, "it is an outbox::Error");
  }
}

// ... and on the way in: a permanent error ends the event at once.
void throws_errors(const std::string& path) {
  auto store = outbox::sqlite::open(path);
  outbox::Listeners on;
  on.add("Hopeless",
         [](const outbox::Event&) -> void { throw outbox::PermanentError("cannot be"); });
  outbox::Outbox box{store, on};
  box.start();
  auto tx = box.begin();
  tx.write({.type = "Hopeless", .payload = outbox::bytes("x")});
  tx.commit();
  check(box.wait_idle(20s), "the hopeless event was given up in time");
  check(store->counts().dead == 1, "it is dead");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("which database?");
    check(outbox::version() == OUTBOX_VERSION, "headers and library are of one version");
    sends_and_receives(argv[1]);
    catches_errors(argv[1]);
    throws_errors(argv[1]);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "consumer: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
