// Three services, three databases: an order reserves stock, the reservation ships,
// the shipment completes the order.
//
//   example_order_fulfilment [folder]      default: a temporary folder
//
// Each service writes its events in the transaction of its own data, and receives those
// of the others through its inbox. The listener that carries an event from one database
// into the next stands where a broker would in a system of several processes. What is
// delivered twice has its effect once: at the end every event is delivered again.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/domain_event.h"
#include "outbox/typed/publisher.h"

namespace {

using namespace std::chrono_literals;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

struct OrderPlaced {
  std::string order;
  std::string sku;
  int quantity = 0;
};
constexpr auto describe(outbox::Type<OrderPlaced>) {
  return outbox::event<OrderPlaced>("OrderPlaced")
      .aggregate("Order", &OrderPlaced::order)
      .field("order", &OrderPlaced::order)
      .field("sku", &OrderPlaced::sku)
      .field("quantity", &OrderPlaced::quantity);
}

struct StockReserved {
  std::string order;
  std::string sku;
};
constexpr auto describe(outbox::Type<StockReserved>) {
  return outbox::event<StockReserved>("StockReserved")
      .aggregate("Stock", &StockReserved::sku)
      .field("order", &StockReserved::order)
      .field("sku", &StockReserved::sku);
}

struct OrderShipped {
  std::string order;
  std::string parcel;
};
constexpr auto describe(outbox::Type<OrderShipped>) {
  return outbox::event<OrderShipped>("OrderShipped")
      .aggregate("Shipment", &OrderShipped::parcel)
      .field("order", &OrderShipped::order)
      .field("parcel", &OrderShipped::parcel);
}

// A service's own database: what it knows, what it has to say, what it has heard.
class Service {
 public:
  Service(const std::filesystem::path& file, const std::string& table)
      : store(outbox::sqlite::open(file.string())), inbox(store) {
    const auto connection = store->connect();
    connection->execute("CREATE TABLE " + table, {});
  }

  // Called once the listeners, which know the other services, are there.
  void start(const outbox::Listeners& listeners) {
    box = std::make_unique<outbox::Outbox>(store, listeners);
    publisher = outbox::transactional_publisher(box->writer());
    box->start();
  }

  std::int64_t number(const std::string& sql) {
    return store->connect()->query(sql, {}).at(0).get<std::int64_t>(0);
  }

  std::shared_ptr<outbox::Store> store;
  outbox::Inbox inbox;
  std::unique_ptr<outbox::Outbox> box;
  std::shared_ptr<outbox::DomainEventPublisher> publisher;
};

void run(const std::filesystem::path& folder) {
  Service orders{folder / "orders.db", "orders(id TEXT PRIMARY KEY, state TEXT NOT NULL)"};
  Service stock{folder / "stock.db", "stock(sku TEXT PRIMARY KEY, available INTEGER NOT NULL)"};
  Service shipping{folder / "shipping.db", "parcels(id TEXT PRIMARY KEY, order_id TEXT NOT NULL)"};

  // The listeners of each use the others: all stop before any of them is gone.
  struct CloseAll {
    std::vector<Service*> services;
    ~CloseAll() {
      for (Service* each : services) {
        if (each->box) each->box->close();
      }
    }
  };
  const CloseAll close_all{{&orders, &stock, &shipping}};

  outbox::Listeners on_orders;
  on_orders.on<OrderPlaced>([&](const OrderPlaced& placed, const outbox::Event& event) {
    auto tx = stock.box->begin();
    stock.inbox.once(tx, "stock", event.id(), [&] {
      if (tx.execute(
              "UPDATE stock SET available = available - ?1 WHERE sku = ?2 AND available >= ?1",
              placed.quantity, placed.sku) == 0) {
        // A shop would publish that. Here it is left to a person: the event is DEAD.
        throw outbox::PermanentError("there is not enough of " + placed.sku);
      }
      stock.publisher->publish(tx, StockReserved{.order = placed.order, .sku = placed.sku});
    });
    tx.commit();
  });

  outbox::Listeners on_stock;
  on_stock.on<StockReserved>([&](const StockReserved& reserved, const outbox::Event& event) {
    auto tx = shipping.box->begin();
    shipping.inbox.once(tx, "shipping", event.id(), [&] {
      const std::string parcel = "parcel-" + reserved.order;
      tx.execute("INSERT INTO parcels(id, order_id) VALUES (?, ?)", parcel, reserved.order);
      shipping.publisher->publish(tx, OrderShipped{.order = reserved.order, .parcel = parcel});
    });
    tx.commit();
  });

  outbox::Listeners on_shipping;
  on_shipping.on<OrderShipped>([&](const OrderShipped& shipped, const outbox::Event& event) {
    auto tx = orders.box->begin();
    orders.inbox.once(tx, "orders", event.id(), [&] {
      tx.execute("UPDATE orders SET state = 'shipped' WHERE id = ?", shipped.order);
      say(shipped.order + " is on its way in " + shipped.parcel);
    });
    tx.commit();
  });

  orders.start(on_orders);
  stock.start(on_stock);
  shipping.start(on_shipping);

  auto goods = stock.box->begin();
  goods.execute("INSERT INTO stock(sku, available) VALUES ('widget', 100)");
  goods.commit();

  constexpr int kOrders = 20;
  for (int i = 1; i <= kOrders; ++i) {
    auto tx = orders.box->begin();
    const std::string order = "order-" + std::to_string(i);
    tx.execute("INSERT INTO orders(id, state) VALUES (?, 'placed')", order);
    orders.publisher->publish(tx, OrderPlaced{.order = order, .sku = "widget", .quantity = 2});
    tx.commit();
  }

  // Along the chain: when one has nothing left, it has written what the next one gets.
  const auto settle = [&] {
    for (Service* each : {&orders, &stock, &shipping}) {
      expect(each->box->wait_idle(20s), "an event was not delivered in time");
    }
  };
  const auto check = [&](const std::string& when) {
    expect(orders.number("SELECT count(*) FROM orders WHERE state = 'shipped'") == kOrders,
           when + ": not all orders are shipped");
    expect(stock.number("SELECT available FROM stock") == 100 - 2 * kOrders,
           when + ": stock was lost or made");
    expect(shipping.number("SELECT count(*) FROM parcels") == kOrders,
           when + ": there are more or fewer parcels than orders");
  };
  settle();
  check("after the first delivery");

  std::int64_t again = 0;
  for (Service* each : {&orders, &stock, &shipping}) {
    again += each->store->admin().replay({.status = {outbox::Status::done}}, 0, 1'000).rows;
    each->box->wake();
  }
  settle();
  check("after the second delivery");
  say(std::to_string(again) + " events delivered again, nothing changed");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.path());
}
