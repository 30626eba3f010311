// Events, transactions and hooks.
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using tutorial::expect;
using tutorial::expect_idle;
using tutorial::order_placed;
using tutorial::Scratch;

void bill(const outbox::Event& event) {
  std::cout << "billed order " << event.aggregate_id() << ": " << event.payload() << '\n';
}

void create_orders(const std::string& path) {
  outbox::Writer writer{outbox::sqlite::open(path)};
  auto tx = writer.begin();
  tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER)");
  tx.commit();
}

std::int64_t count_orders(outbox::Outbox& box) {
  auto tx = box.begin();
  return tx.query_one<std::int64_t>("SELECT count(*) FROM orders");
}

void what_a_query_returns(outbox::Outbox& box) {
  auto tx = box.begin();
  tx.execute("INSERT INTO orders (id, cents) VALUES (?, ?), (?, ?)", 42, 1999, 43, nullptr);
  std::int64_t total = 0;
  // [rows]
  for (const outbox::ResultRow& row : tx.query("SELECT id, cents FROM orders WHERE id < ?", 100)) {
    total += row.get<std::optional<std::int64_t>>("cents").value_or(0);
  }
  const auto [orders, first] = tx.query_one<int, int>("SELECT count(*), min(id) FROM orders");
  // [/rows]
  expect(total == 1999 && orders == 2 && first == 42, "two orders of 1999 cents");
}

// [enums]
enum class Aggregate { order, customer };
enum class OrderEvent { placed, shipped };

std::string_view outbox_name(Aggregate aggregate) {
  return aggregate == Aggregate::order ? "Order" : "Customer";
}
std::string_view outbox_name(OrderEvent event) {
  return event == OrderEvent::placed ? "OrderPlaced" : "OrderShipped";
}
// [/enums]

void what_an_event_holds(const Scratch& scratch) {
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", received);
  // [enum-listener]
  on.add(Aggregate::order, OrderEvent::shipped, [](const outbox::Event& event) { bill(event); });
  // [/enum-listener]
  outbox::Outbox box{outbox::sqlite::open(scratch.file("shop.db")), on};
  box.start();

  const std::string picture("\x89PNG\0", 5);
  auto tx = box.begin();
  // [all-fields]
  tx.write({.type = "OrderPlaced",
            .aggregate_type = "Order",
            .aggregate_id = "42",
            .payload = outbox::bytes(picture, "image/png"),
            .headers = {{"source", "web"}},
            .tenant_id = "north"});
  tx.write({.type = OrderEvent::shipped,
            .aggregate_type = Aggregate::order,
            .aggregate_id = "42",
            .payload = outbox::json(R"({"parcels":2})")});
  // [/all-fields]
  // [refused]
  try {
    tx.write({.type = "OrderPlaced", .payload = outbox::json("{cents: 1999}")});
  } catch (const outbox::MisuseError& error) {
    std::cout << error.what() << '\n';  // names the field and what is wrong with it
  }
  // [/refused]
  tx.commit();
  expect_idle(box);
  expect(received->count() == 1 && received->payloads().front() == picture, "bytes stay bytes");
  expect(received->calls().front().event.header("source") == "web", "headers arrive");
}

// [deep-below]
void note_order(outbox::Writer& writer, const std::string& order) {
  writer.write({.type = "OrderPlaced",
                .aggregate_type = "Order",
                .aggregate_id = order,
                .payload = outbox::json("{}")});
}
// [/deep-below]

void transactions(const Scratch& scratch) {
  const std::string path = scratch.file("shop.db");
  create_orders(path);
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", received);
  outbox::Outbox box{outbox::sqlite::open(path), on};
  box.start();

  // [rollback]
  {
    auto tx = box.begin();
    tx.execute("INSERT INTO orders (id, cents) VALUES (?, ?)", 43, 500);
    tx.write(order_placed("43"));
  }  // not committed: neither the order nor its event ever existed
  // [/rollback]
  expect(count_orders(box) == 0, "a rollback leaves nothing");
  what_a_query_returns(box);

  {
    // [savepoint]
    auto tx = box.begin();
    tx.write(order_placed("44"));
    {
      auto part = tx.savepoint();
      tx.write(order_placed("45"));
    }  // not released: event 45 is undone, event 44 is not
    tx.after_commit([] { std::cout << "order 44 is in\n"; });
    tx.commit();
    // [/savepoint]
  }
  expect_idle(box);
  expect(received->count() == 1, "only order 44 is told");

  // [write-all]
  auto tx = box.begin();
  note_order(box.writer(), "46");  // finds the transaction of this thread
  const auto ids = tx.write_all({order_placed("47"), order_placed("48")});
  tx.commit();
  // [/write-all]
  expect_idle(box);
  expect(received->count() == 4 && ids.size() == 2, "all of them are told");
}

// [hook]
class StampSource final : public outbox::WriterHook {
 public:
  void before_write(std::vector<outbox::Draft>& drafts) override {
    for (outbox::Draft& draft : drafts) draft.headers.emplace("source", "shop");
  }
  void after_commit(std::span<const outbox::Written> events) override { written_ += events.size(); }

  std::size_t written() const { return written_; }

 private:
  std::atomic<std::size_t> written_ = 0;
};
// [/hook]

void hooks(const Scratch& scratch) {
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", received);
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  // [use-hook]
  const auto stamp = std::make_shared<StampSource>();
  outbox::Outbox box{db, on, {.hooks = {stamp}}};
  // [/use-hook]
  box.start();
  tutorial::write(box, order_placed("1"));
  expect_idle(box);
  expect(received->calls().front().event.header("source") == "shop", "the hook stamps events");
  expect(stamp->written() == 1, "the hook hears of the commit");
}

}  // namespace

int main() { return tutorial::run(what_an_event_holds, transactions, hooks); }
