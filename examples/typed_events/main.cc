// A struct as an event: described once, published and listened to as it is.
//
//   example_typed_events [transactional|in_memory]      default: transactional
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/publisher.h"

namespace shop {

// [describe]
struct Item {
  std::string sku;
  int count = 0;
};

struct OrderPlaced {
  std::string order;
  std::int64_t cents = 0;
  std::vector<Item> items{};
  std::optional<std::string> coupon{};
};

constexpr auto describe(outbox::Type<Item>) {
  return outbox::object<Item>().field("sku", &Item::sku).field("count", &Item::count);
}

constexpr auto describe(outbox::Type<OrderPlaced>) {
  return outbox::event<OrderPlaced>("OrderPlaced")
      .version(2)
      .aggregate("Order", &OrderPlaced::order)
      .field("order", &OrderPlaced::order)
      .field("cents", &OrderPlaced::cents)
      .field("items", &OrderPlaced::items)
      .field("coupon", &OrderPlaced::coupon)
      .upcast(1, [](outbox::JsonValue old) {  // version 1 said `amount`
        if (auto amount = old.take("amount")) old.set("cents", *std::move(amount));
        return old;
      });
}
// [/describe]

}  // namespace shop

namespace {

using namespace std::chrono_literals;
using shop::OrderPlaced;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

// May be called more than once for the same event after a crash; see docs/patterns.md.
void bill(const OrderPlaced& order, const outbox::Event& event) {
  say("billed order " + order.order + ": " + std::to_string(order.cents) + " cents, " +
      std::to_string(order.items.size()) + " items, request " +
      std::string(event.header("request-id").value_or("unknown")));
}

// What a program of last year wrote, and nobody has delivered since.
outbox::Draft old_order() {
  return {.type = "OrderPlaced",
          .aggregate_type = "Order",
          .aggregate_id = "41",
          .payload = outbox::json(R"({"order":"41","amount":500,"items":[]})"),
          .headers = {{"event-version", "1"}}};
}

void run(const std::string& path, const std::string& kind) {
  const auto db = outbox::sqlite::open(path);

  // [listen]
  outbox::Listeners on;
  on.on<OrderPlaced>(
      [](const OrderPlaced& order, const outbox::Event& event) { bill(order, event); });
  outbox::Outbox box{db, on};
  box.start();
  const auto publisher = outbox::make_publisher(outbox::publisher_kind(kind), box.writer(), on);
  // [/listen]

  // [publish]
  const outbox::RequestScope request{{.request_id = "r-7", .operator_id = "ann"}};
  auto tx = box.begin();
  publisher->publish(tx, OrderPlaced{.order = "42", .cents = 1999, .items = {{"tea", 2}}});
  tx.commit();
  // [/publish]

  auto another = box.begin();
  publisher->publish_all(another, std::vector{old_order()});
  another.commit();
  if (!box.wait_idle(20s)) throw std::runtime_error("the events were not delivered in time");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(scratch.file("shop.db"), argc > 1 ? argv[1] : "transactional");
}
