#include "cli/demo/shop.h"

#include <utility>
#include <variant>

namespace outbox::demo {
namespace {

constexpr const char* kCreateOrders = R"sql(
  CREATE TABLE IF NOT EXISTS orders (
    customer TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    cents    INTEGER NOT NULL,
    event_id TEXT    NOT NULL,
    PRIMARY KEY (customer, number)
  ) WITHOUT ROWID)sql";

constexpr const char* kNextNumber =
    "SELECT COALESCE(MAX(number), 0) + 1 FROM orders WHERE customer = ?";

constexpr const char* kInsertOrder =
    "INSERT INTO orders (customer, number, cents, event_id) VALUES (?, ?, ?, ?)";

constexpr const char* kAllOrders = "SELECT event_id, customer, number FROM orders";

constexpr const char* kPendingEvents =
    "SELECT event_id FROM outbox_event WHERE hold IS NOT NULL AND status IN (0, 2)";

std::vector<ResultRow> read(Store& store, const char* sql) {
  const auto connection = store.connect();
  connection->begin();
  auto rows = connection->query(sql, {});
  connection->rollback();
  return rows;
}

}  // namespace

std::shared_ptr<Store> open_shop(const std::string& path, Logger log) {
  auto store = sqlite::open(path, {.log = std::move(log)});
  const auto connection = store->connect();
  connection->begin();
  connection->execute(kCreateOrders, {});
  connection->commit();
  return store;
}

Order place_order(Transaction& tx, const std::string& customer, int cents) {
  Order order{.customer = customer, .number = tx.query_one<int>(kNextNumber, customer)};
  order.event_id = tx.write({.type = kEvent,
                             .aggregate_type = kAggregate,
                             .aggregate_id = customer,
                             .payload = json("{\"number\":" + std::to_string(order.number) +
                                             ",\"cents\":" + std::to_string(cents) + "}"),
                             .headers = {{"number", std::to_string(order.number)}}});
  tx.execute(kInsertOrder, customer, order.number, cents, order.event_id);
  return order;
}

std::vector<Order> orders(Store& store) {
  std::vector<Order> result;
  for (const ResultRow& row : read(store, kAllOrders)) {
    result.push_back({.event_id = row.get<std::string>("event_id"),
                      .customer = row.get<std::string>("customer"),
                      .number = row.get<int>("number")});
  }
  return result;
}

std::vector<std::string> pending_events(Store& store) {
  std::vector<std::string> result;
  for (const ResultRow& row : read(store, kPendingEvents)) {
    result.push_back(row.get<std::string>(0));
  }
  return result;
}

}  // namespace outbox::demo
