// The shop's database: its own table of orders beside the outbox.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "outbox/sqlite.h"
#include "outbox/transaction.h"
#include "outbox/writer.h"

namespace outbox::demo {

inline constexpr const char* kAggregate = "Customer";
inline constexpr const char* kEvent = "OrderPlaced";

// An order as the shop has it: the business row that its event must follow.
struct Order {
  std::string event_id{};
  std::string customer{};
  int number = 0;  // counts the customer's orders from 1

  friend bool operator==(const Order&, const Order&) = default;
};

// Opens the shop's database and creates what is missing in it.
std::shared_ptr<Store> open_shop(const std::string& path, Logger log);

// Inserts the customer's next order and its event in the transaction. Whether
// it happened is up to the transaction.
Order place_order(Transaction& tx, const std::string& customer, int cents);

// All orders that were committed.
std::vector<Order> orders(Store& store);

// The ids of events that are still to be delivered.
std::vector<std::string> pending_events(Store& store);

}  // namespace outbox::demo
