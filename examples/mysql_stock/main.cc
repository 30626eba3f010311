// A stock service on MariaDB or MySQL. Two clerks reserve the same articles in opposite
// order: InnoDB ends one of them now and then to break a deadlock, and it starts over.
//
//   example_mysql_stock [mysql://...]      default: $DATABASE_URL
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include "outbox/error.h"
#include "outbox/mysql.h"
#include "outbox/outbox.h"

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kInStock = 50;

// The service's own table, beside the library's, which open() creates.
void create_tables(outbox::Store& db, outbox::Writer& writer) {
  // Outside of transactions, because MySQL commits CREATE TABLE by itself.
  db.connect()->execute(
      "CREATE TABLE IF NOT EXISTS stock (article VARCHAR(16) PRIMARY KEY, pieces BIGINT)", {});
  auto tx = writer.begin();
  tx.execute("INSERT INTO stock VALUES ('kettle', ?), ('teapot', ?)", kInStock, kInStock);
  tx.commit();
}

// One piece of each article and its event, or neither; false if one is sold out.
bool reserve(outbox::Writer& writer, const std::string& order, const std::string& first,
             const std::string& second) {
  auto tx = writer.begin();  // rolls back unless committed
  for (const std::string& article : {first, second}) {
    if (tx.execute("UPDATE stock SET pieces = pieces - 1 WHERE article = ? AND pieces > 0",
                   article) == 0) {
      return false;
    }
  }
  tx.write({.type = "StockReserved",
            .aggregate_type = "Order",
            .aggregate_id = order,
            .payload = outbox::json("{\"articles\":[\"" + first + "\",\"" + second + "\"]}")});
  tx.commit();
  return true;
}

// Reserves until the stock is sold out; the number of orders that got theirs.
int sell(outbox::Writer& writer, const std::string& clerk, const std::string& first,
         const std::string& second) {
  for (int sold = 0;;) {
    try {
      if (!reserve(writer, clerk + "-" + std::to_string(sold), first, second)) return sold;
      ++sold;
    } catch (const outbox::RetryableError&) {
      // A deadlock: nothing of it happened, neither the reservation nor the event. Again.
    }
  }
}

std::int64_t left(outbox::Writer& writer) {
  auto tx = writer.begin();
  return tx.query_one<std::int64_t>("SELECT sum(pieces) FROM stock");
}

void run(const std::string& url) {
  const auto db = outbox::mysql::open(url);
  std::atomic<int> packed = 0;
  outbox::Listeners on;
  on.add("Order", "StockReserved", [&](const outbox::Event&) { ++packed; });
  outbox::Outbox box{db, on, {.mode = outbox::Mode::multi_node}};
  create_tables(*db, box.writer());
  box.start();

  auto ann =
      std::async(std::launch::async, [&] { return sell(box.writer(), "ann", "kettle", "teapot"); });
  auto bob =
      std::async(std::launch::async, [&] { return sell(box.writer(), "bob", "teapot", "kettle"); });
  const int sold = ann.get() + bob.get();

  if (!box.wait_idle(20s)) throw std::runtime_error("the orders were not packed in time");
  if (packed != sold || left(box.writer()) != 2 * (kInStock - sold)) {
    throw std::runtime_error("the stock and the events disagree");
  }
  std::cout << "sold " << sold << ", packed " << packed << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const char* url = argc > 1 ? argv[1] : std::getenv("DATABASE_URL");
  if (url == nullptr) {
    std::cerr << "usage: example_mysql_stock mysql://user@host/database\n";
    return EXIT_FAILURE;
  }
  run(url);
  return EXIT_SUCCESS;
}
