// Orders that are placed once, however often the client sends its request.
//
//   example_idempotent_create [database]      default: a temporary file
#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "outbox/consumer/idempotent_create.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;

// What came in by HTTP.
struct Request {
  std::string tenant;
  std::string key;  // of the header Idempotency-Key
  std::string body;
};

struct Response {
  int status;
  std::string order;
};

// [snippet]
Response place_order(outbox::IdempotentCreate& create, const Request& request) {
  if (request.key.empty()) return {400, ""};  // else all such requests would be one
  const auto order =
      create.run({.tenant_id = request.tenant, .key = "order:" + request.key, .body = request.body},
                 [&](outbox::Transaction& tx, const outbox::NewIds& ids) {
                   tx.execute("INSERT INTO orders (id, number, what) VALUES (?, ?, ?)",
                              ids.internal_id, ids.public_id, request.body);
                   tx.write({.type = "OrderPlaced",
                             .aggregate_type = "Order",
                             .aggregate_id = ids.internal_id,
                             .payload = outbox::json(request.body)});
                   return ids.public_id;  // what a repetition gets
                 });
  if (order.in_progress()) return {409, ""};  // ask again after order.retry_after
  return {order.created() ? 201 : 200, *order.result};
}
// [/snippet]

Response answer(outbox::IdempotentCreate& create, const Request& request) {
  try {
    return place_order(create, request);
  } catch (const outbox::KeyReusedError&) {
    return {422, ""};  // the client's mistake
  }
}

void run(const std::string& path) {
  auto db = outbox::sqlite::open(path);
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [](const outbox::Event& event) {
    std::cout << "shipping " + std::string(event.payload()) + "\n" << std::flush;
  });
  outbox::Outbox box{db, on};
  {
    auto tx = box.begin();
    tx.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, number TEXT, what TEXT)");
    tx.commit();
  }
  box.start();
  outbox::IdempotentCreate create{box.writer(), {.public_id_prefix = "ord", .wait = 5s}};
  create.start();  // forgets old requests, now and then

  const std::string key = outbox::new_id();  // chosen by the client, once for each order
  const Request first{"acme", key, R"({"books":3})"};
  const Response placed = answer(create, first);
  const Response again = answer(create, first);  // the client got no answer
  const Response wrong = answer(create, {"acme", key, R"({"books":4})"});
  // In one piece, because the listener prints, too.
  const std::string answers =
      "placed: " + std::to_string(placed.status) + ", again: " + std::to_string(again.status) +
      (again.order == placed.order ? " with the same order" : " with another order") +
      ", another body: " + std::to_string(wrong.status) + "\n";
  std::cout << answers << std::flush;

  if (!box.wait_idle(20s)) throw std::runtime_error("the event was not delivered in time");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
