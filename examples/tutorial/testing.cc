// How an application tests the code that writes and receives events.
#include "outbox/testing.h"

#include <memory>
#include <string>

#include "common.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"

namespace {

using namespace std::chrono_literals;
using tutorial::expect;
using tutorial::expect_idle;
using tutorial::order_placed;
using tutorial::Scratch;

// The code under test: a reminder a day after the order.
void place_order(outbox::Outbox& box, const std::string& order) {
  auto tx = box.begin();
  tx.write({.type = "PaymentMissing",
            .aggregate_type = "Order",
            .aggregate_id = order,
            .payload = outbox::json("{}"),
            .deliver_after = 24h});
  tx.commit();
}

void time_and_memory(const Scratch& /*scratch*/) {
  // [memory-store]
  outbox::testing::ManualClock clock;
  const auto store = outbox::memory::open({.clock = &clock});
  const auto receiver = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "PaymentMissing", receiver);
  outbox::Outbox box{store, on};
  box.start();

  place_order(box, "42");  // the code under test
  clock.advance(23h);
  box.wake();
  expect(store->has_pending(), "the reminder waits");

  clock.advance(1h);
  box.wake();
  expect(receiver->wait_for(1), "the reminder comes after a day");
  // [/memory-store]
  expect_idle(box);
  expect(receiver->count() == 1, "it comes once");
}

void failures(const Scratch& /*scratch*/) {
  // [failing-receiver]
  const auto receiver = std::make_shared<outbox::testing::RecordingListener>(
      [](const outbox::Event&, const outbox::Delivery& delivery) {
        return delivery.attempt < 3 ? outbox::Outcome::failed("not yet") : outbox::Outcome::done();
      });
  outbox::testing::RecordingLog log;
  // [/failing-receiver]
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", receiver);
  outbox::Outbox box{outbox::memory::open(), on, {.retry = {.max_attempts = 2}, .log = log.log()}};
  box.start();
  tutorial::write(box, order_placed("42"));
  expect_idle(box);
  box.close();
  expect(receiver->count() == 2, "two attempts were allowed");
  expect(log.contains("not yet"), "the log says why it was given up");
}

}  // namespace

int main() { return tutorial::run(time_and_memory, failures); }
