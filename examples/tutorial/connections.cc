// Connections of the application's own, its own migrations, its own codec, and
// two databases.
#include <sqlite3.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "common.h"
#include "outbox/memory.h"
#include "outbox/open.h"
#include "outbox/outbox.h"
#include "outbox/spi/json_codec.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using tutorial::expect;
using tutorial::expect_idle;
using tutorial::order_placed;
using tutorial::Scratch;

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Database = std::unique_ptr<sqlite3, Close>;

Database connect(const std::string& path) {
  sqlite3* raw = nullptr;
  const int result = sqlite3_open(path.c_str(), &raw);
  Database db(raw);
  if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(raw));
  sqlite3_busy_timeout(raw, 5'000);
  return db;
}

void execute(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sql + ": " + sqlite3_errmsg(db));
  }
}

void own_connection(const Scratch& scratch) {
  const std::string path = scratch.file("shop.db");
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", received);
  const auto store = outbox::sqlite::open(path);
  outbox::Outbox box{store, on};
  box.start();
  const Database db = connect(path);
  execute(db.get(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER)");

  // [own-connection]
  auto mine = outbox::wrap(db.get(), *store);  // keep it beside your sqlite3*

  execute(db.get(), "BEGIN IMMEDIATE");
  execute(db.get(), "INSERT INTO orders VALUES (42, 1999)");
  auto token = box.writer().write(*mine, order_placed("42"));
  execute(db.get(), "COMMIT");
  token.committed();  // the library cannot see your COMMIT: tell it
  // [/own-connection]
  expect_idle(box);
  expect(received->count() == 1, "the event is delivered");
}

void by_url(const Scratch& scratch) {
  const std::string url = "sqlite:" + scratch.file("shop.db");
  // [open-by-url]
  auto store = outbox::open(
      url,
      {outbox::sqlite::scheme({.table = "shop_outbox"}),
       {.names = {"memory"}, .open = [](const std::string&) { return outbox::memory::open(); }}});
  // [/open-by-url]
  expect(!store->has_pending(), "the store is new");
}

void own_migration(const Scratch& scratch) {
  const std::string path = scratch.file("shop.db");
  {
    const Database db = connect(path);
    // [own-migration]
    execute(db.get(), outbox::sqlite::schema_sql("shop_outbox"));  // or by your migration tool

    auto store = outbox::sqlite::open(path, {.table = "shop_outbox", .migrate = false});
    // [/own-migration]
    expect(!store->has_pending(), "the table is new");
  }
}

// [codec]
class BoundedCodec final : public outbox::JsonCodec {
 public:
  std::string encode(const outbox::Headers& headers) const override {
    std::string text = inner_->encode(headers);
    if (text.size() > 8'192) throw outbox::MisuseError("these headers are too long for our broker");
    return text;
  }
  outbox::Headers decode(std::string_view text) const override { return inner_->decode(text); }

 private:
  const std::shared_ptr<const outbox::JsonCodec> inner_ = outbox::default_json_codec();
};
// [/codec]

void own_codec(const Scratch& scratch) {
  const std::string path = scratch.file("shop.db");
  // [use-codec]
  auto store = outbox::sqlite::open(path, {.codec = std::make_shared<BoundedCodec>()});
  // [/use-codec]
  outbox::Writer writer{store};
  auto tx = writer.begin();
  auto draft = order_placed("42");
  draft.headers["note"] = std::string(10'000, 'x');
  try {
    tx.write(std::move(draft));
    throw std::runtime_error("the codec was not asked");
  } catch (const outbox::MisuseError& error) {
    std::cout << error.what() << '\n';
  }
  tx.write(order_placed("42"));
  tx.commit();
  expect(store->has_pending(), "what the codec takes is written");
}

void two_databases(const Scratch& scratch) {
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  const auto publish = [&](const outbox::Event& event) {
    received->on_event(event, outbox::Delivery{});
  };

  // [two-databases]
  const auto shared = outbox::listener(publish);  // without state of its own, or thread-safe

  outbox::Listeners on_orders;
  on_orders.add("Order", "OrderPlaced", shared);
  outbox::Outbox orders{
      outbox::sqlite::open(scratch.file("orders.db")), on_orders, {.name = "orders"}};

  outbox::Listeners on_stock;
  on_stock.add("Item", "StockReserved", shared);
  outbox::Outbox stock{outbox::sqlite::open(scratch.file("stock.db")), on_stock, {.name = "stock"}};

  orders.start();
  stock.start();
  // [/two-databases]

  tutorial::write(orders, order_placed("1"));
  tutorial::write(stock, {.type = "StockReserved",
                          .aggregate_type = "Item",
                          .aggregate_id = "widget",
                          .payload = outbox::json(R"({"quantity":5})")});
  expect_idle(orders);
  expect_idle(stock);
  expect(received->count() == 2, "one listener heard of both");
}

}  // namespace

int main() {
  return tutorial::run(own_connection, by_url, own_migration, own_codec, two_databases);
}
