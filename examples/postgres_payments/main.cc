// A payment service on PostgreSQL. Two instances share the work; each payment is booked in
// the ledger once, whatever is delivered twice.
//
//   example_postgres_payments [postgresql://...]      default: $DATABASE_URL
#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>

#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "outbox/postgres.h"

namespace {

using namespace std::chrono_literals;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

// What a listener does with an event. It may see the same event again after a crash: it
// recognises repeats by event.id(), or is an idempotent consumer like the ledger below.
void send_receipt(const outbox::Event& event) {
  say("receipt for payment " + event.aggregate_id() + ": " + event.payload());
}

// The service's own tables, beside the library's, which open() creates.
void create_tables(const std::shared_ptr<outbox::Store>& db) {
  outbox::Writer writer{db};
  auto tx = writer.begin();
  tx.execute("CREATE TABLE IF NOT EXISTS payment (id text PRIMARY KEY, cents bigint NOT NULL)");
  tx.execute("CREATE TABLE IF NOT EXISTS ledger (payment text NOT NULL, cents bigint NOT NULL)");
  tx.commit();
}

// The payment and its event, or neither. RetryableError means that nothing happened and that
// it may work the next time: a deadlock, a serialization failure, a failover.
void take_payment(outbox::Writer& writer, const std::string& id, std::int64_t cents) {
  for (int attempt = 1;; ++attempt) {
    try {
      auto tx = writer.begin();
      tx.execute("INSERT INTO payment (id, cents) VALUES ($1, $2)", id, cents);
      tx.write({.type = "PaymentTaken",
                .aggregate_type = "Payment",
                .aggregate_id = id,
                .payload = outbox::json("{\"cents\":" + std::to_string(cents) + "}")});
      tx.commit();
      return;
    } catch (const outbox::RetryableError& error) {
      if (attempt == 5) throw;
      say(std::string("starting over: ") + error.what());
    }
  }
}

// A part of the program with connections of its own: the library writes the event in the
// transaction that is open there, and neither begins nor ends anything.
struct Finish {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
using Connection = std::unique_ptr<PGconn, Finish>;

Connection connect(const std::string& url) {
  Connection connection(PQconnectdb(url.c_str()));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection.get()));
  }
  return connection;
}

void execute(PGconn* connection, const std::string& sql) {
  const std::unique_ptr<PGresult, decltype(&PQclear)> result{PQexec(connection, sql.c_str()),
                                                             &PQclear};
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    throw std::runtime_error(sql + ": " + PQerrorMessage(connection));
  }
}

void refund(outbox::Writer& writer, outbox::Store& db, PGconn* connection) {
  const auto mine = outbox::wrap(connection, db);  // keep it beside the connection
  execute(connection, "BEGIN");
  execute(connection, "UPDATE payment SET cents = 0 WHERE id = 'p-43'");
  auto token = writer.write(*mine, {.type = "PaymentRefunded",
                                    .aggregate_type = "Payment",
                                    .aggregate_id = "p-43",
                                    .payload = outbox::json(R"({"cents":-500})")});
  execute(connection, "COMMIT");
  token.committed();  // the library cannot see that COMMIT
}

// The sum of what the ledger got.
std::int64_t booked(outbox::Writer& writer) {
  auto tx = writer.begin();
  return tx.query_one<std::int64_t>("SELECT coalesce(sum(cents), 0) FROM ledger");
}

void run(const std::string& url) {
  create_tables(outbox::postgres::open(url));

  // [snippet]
  auto db = outbox::postgres::open(url);  // "postgresql://shop@db.example/shop"
  outbox::Listeners on;
  on.add("Payment", "PaymentTaken", [](const outbox::Event& event) { send_receipt(event); });
  outbox::Outbox box{db, on, {.mode = outbox::Mode::multi_node}};
  box.start();

  auto tx = box.begin();  // rolls back unless committed
  tx.execute("INSERT INTO payment (id, cents) VALUES ($1, $2)", "p-42", 1999);
  tx.write({.type = "PaymentTaken",
            .aggregate_type = "Payment",
            .aggregate_id = "p-42",
            .payload = outbox::json(R"({"cents":1999})")});
  tx.commit();  // and the listener is called
  // [/snippet]

  if (!box.wait_idle(20s)) throw std::runtime_error("the receipt was not sent in time");
  box.close();

  // An idempotent consumer: the entry and the record of its event are one transaction.
  outbox::Inbox inbox{db};
  outbox::Writer books{db};
  const auto book =
      inbox.listener(books, "ledger", [](outbox::Transaction& entry, const outbox::Event& event) {
        entry.execute("INSERT INTO ledger VALUES ($1, ($2::json ->> 'cents')::bigint)",
                      event.aggregate_id(), event.payload());
      });
  outbox::Listeners ledger;
  ledger.add("Payment", "PaymentTaken", book);
  ledger.add("Payment", "PaymentRefunded", book);

  // As many instances as you like share the payments; here two in one process. They poll
  // often because nothing notifies the other one of a commit on one's own connection.
  const outbox::Options options{.mode = outbox::Mode::multi_node, .poll_interval = 500ms};
  outbox::Outbox first{db, ledger, options};
  outbox::Outbox second{outbox::postgres::open(url), ledger, options};
  first.start();
  second.start();

  take_payment(first.writer(), "p-43", 500);
  for (int i = 0; i < 20; ++i) take_payment(second.writer(), "n-" + std::to_string(i), 100);
  refund(first.writer(), *db, connect(url).get());

  if (!first.wait_idle(20s)) throw std::runtime_error("the ledger was not written in time");
  say("booked " + std::to_string(booked(first.writer())) + " cents");
}

}  // namespace

int main(int argc, char** argv) {
  const char* url = argc > 1 ? argv[1] : std::getenv("DATABASE_URL");
  if (url == nullptr) {
    std::cerr << "usage: example_postgres_payments postgresql://user@host/database\n";
    return EXIT_FAILURE;
  }
  run(url);
  return EXIT_SUCCESS;
}
