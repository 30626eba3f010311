// What listeners can say, order, batches, fan-outs, interceptors, delays.
#include <atomic>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;
using tutorial::expect;
using tutorial::expect_idle;
using tutorial::order_placed;
using tutorial::Scratch;

enum class Answer { taken, not_yet, invalid, unreachable, busy, broken };

// Answers the first call as the order's id asks, later ones with `taken`.
class Billing {
 public:
  Answer charge(const outbox::Event& event) {
    const std::lock_guard lock(mutex_);
    const std::string& order = event.aggregate_id();
    if (++calls_[order] > 1) return Answer::taken;
    if (order == "not yet") return Answer::not_yet;
    if (order == "invalid") return Answer::invalid;
    if (order == "unreachable") return Answer::unreachable;
    if (order == "busy") return Answer::busy;
    return order == "broken" ? Answer::broken : Answer::taken;
  }

  int calls(const std::string& order) {
    const std::lock_guard lock(mutex_);
    return calls_[order];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
};

void outcomes(const Scratch& scratch) {
  Billing billing;
  std::atomic<int> dead = 0;
  outbox::Listeners on;
  // [outcomes]
  on.add("Order", "OrderPlaced", [&](const outbox::Event& event) {
    switch (billing.charge(event)) {
      case Answer::taken:
        return outbox::Outcome::done();
      case Answer::not_yet:  // not now: no attempt is spent
        return outbox::Outcome::retry_after(100ms);
      case Answer::invalid:  // never: DEAD at once
        throw outbox::PermanentError("there is no such customer");
      case Answer::unreachable:  // not the event's fault: no attempt, and a pause for all
        throw outbox::UnavailableError("billing does not answer");
      case Answer::busy:  // an attempt, with a delay of its own
        throw outbox::RetryAfterError("too many requests", 200ms);
      case Answer::broken:
        break;
    }
    throw std::runtime_error("billing failed");  // an attempt; the retry policy says when
  });
  // [/outcomes]
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  // [on-dead-event]
  outbox::Outbox box{
      db, on, {.dead = {.on_event = [&](const outbox::Event& event, std::string_view error) {
                 ++dead;
                 std::cout << event.id() << " was given up: " << error << '\n';
               }}}};
  // [/on-dead-event]
  box.start();
  for (const char* order : {"taken", "not yet", "invalid", "unreachable", "busy", "broken"}) {
    tutorial::write(box, order_placed(order));
  }
  expect_idle(box);
  expect(billing.calls("taken") == 1 && billing.calls("invalid") == 1, "they are called once");
  expect(billing.calls("not yet") == 2 && billing.calls("broken") == 2, "they are called again");
  tutorial::expect_soon([&] { return dead == 1; }, "one event is dead");
}

void retry(const Scratch& scratch) {
  std::atomic<int> calls = 0;
  const auto charge = [&](const outbox::Event&) {
    if (++calls < 3) throw std::runtime_error("billing failed");
  };
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  outbox::Listeners on;
  // [retry]
  on.add("Order", "OrderPlaced", charge,
         {.retry = std::make_shared<outbox::ExponentialBackoff>(
              outbox::ExponentialBackoffOptions{.base = 50ms, .max = 10min}),
          .max_attempts = 20});
  // For listeners without a number of their own.
  outbox::Outbox box{db, on, {.retry = {.max_attempts = 2}}};
  // [/retry]
  box.start();
  tutorial::write(box, order_placed("1"));
  expect_idle(box);
  expect(calls == 3, "the listener's own number of attempts counts");
}

void order(const Scratch& scratch) {
  const auto count_view = [](const outbox::Event&) {};
  outbox::Listeners on;
  // [ordering-of-a-listener]
  on.add("Page", "PageViewed", count_view, {.ordering = outbox::Ordering::none});
  // [/ordering-of-a-listener]
  {
    const auto db = outbox::sqlite::open(scratch.file("shop.db"));
    // [ordering-of-all]
    outbox::Outbox box{db, on, {.ordering = outbox::Ordering::none}};
    // [/ordering-of-all]
  }
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  on.add("Order", "OrderPlaced", received);
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  // [on-dead]
  outbox::Outbox box{db, on, {.dead = {.then = outbox::OnDead::block}}};
  // [/on-dead]
  box.start();
  for (int i = 0; i < 100; ++i) {
    auto draft = order_placed("42");
    draft.payload = outbox::json(std::to_string(i));
    tutorial::write(box, draft);
  }
  expect_idle(box);
  const auto payloads = received->payloads();
  for (int i = 0; i < 100; ++i) {
    expect(payloads.at(static_cast<std::size_t>(i)) == std::to_string(i), "they come in order");
  }
}

std::atomic<int> mails = 0;

bool send_mail(const outbox::Event& event) {
  ++mails;
  return event.payload() != "1" || mails > 2;  // the second one fails at first
}

// [batch]
class Mailer final : public outbox::BatchListener {
 public:
  std::vector<outbox::Outcome> on_events(std::span<const Item> items) override {
    std::vector<outbox::Outcome> outcomes;
    std::set<std::string> failed;
    for (const auto& [event, delivery] : items) {
      if (failed.contains(event.aggregate_id())) {
        outcomes.push_back(outbox::Outcome::retry_after(0ms));  // behind one that failed
      } else if (send_mail(event)) {
        outcomes.push_back(outbox::Outcome::done());
      } else {
        failed.insert(event.aggregate_id());
        outcomes.push_back(outbox::Outcome::failed("the mail server refused it"));
      }
    }
    return outcomes;
  }
};
// [/batch]

void batches(const Scratch& scratch) {
  outbox::Listeners on;
  // [use-batch]
  on.add_batch("Order", "OrderPlaced", std::make_shared<Mailer>(), {.max_batch = 50});
  // [/use-batch]
  outbox::Outbox box{outbox::sqlite::open(scratch.file("shop.db")), on};
  for (const char* payload : {"0", "1", "2"}) {
    auto draft = order_placed("42");
    draft.payload = outbox::json(payload);
    tutorial::write(box, draft);
  }
  box.start();
  expect_idle(box);
  expect(mails == 4, "the one that failed is sent again");
}

void fan_out(const Scratch& scratch) {
  std::atomic<int> mailed = 0;
  std::atomic<int> booked = 0;
  const auto mail = [&](const outbox::Event&) { ++mailed; };
  const auto stock = [&](const outbox::Event&) {
    if (++booked == 1) throw std::runtime_error("the stock is being counted");
  };
  outbox::Listeners on;
  // [fan-out]
  on.fan_out("Order", "OrderPlaced",
             {outbox::handler("mail", mail), outbox::handler("stock", stock)});
  // [/fan-out]
  outbox::Outbox box{outbox::sqlite::open(scratch.file("shop.db")), on};
  box.start();
  tutorial::write(box, order_placed("42"));
  expect_idle(box);
  expect(mailed == 1 && booked == 2, "only the one that failed is called again");
}

void interceptors(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [](const outbox::Event&) {});
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto audit = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  // [interceptors]
  const auto begin =
      outbox::before([&](const outbox::Event& event) { audit("delivering " + event.type()); });
  const auto end = outbox::after([&](const outbox::Event&, const std::exception_ptr& error) {
    audit(error ? "it failed" : "it went well");
  });
  outbox::Outbox box{db, on, {.interceptors = {begin, end}}};
  // [/interceptors]
  box.start();
  tutorial::write(box, order_placed("42"));
  expect_idle(box);
  const std::lock_guard lock(mutex);
  expect(lines == std::vector<std::string>{"delivering OrderPlaced", "it went well"},
         "both are called");
}

void delays(const Scratch& /*scratch*/) {
  outbox::testing::ManualClock clock;
  const auto received = std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
  on.add("Order", "PaymentMissing", received);
  outbox::Outbox box{outbox::memory::open({.clock = &clock}), on};
  box.start();
  {
    auto tx = box.begin();
    // [delay]
    tx.write({.type = "PaymentMissing",
              .aggregate_type = "Order",
              .aggregate_id = "42",
              .payload = outbox::json("{}"),
              .deliver_after = 24h});
    // [/delay]
    tx.commit();
  }
  clock.advance(24h);
  box.wake();
  expect(received->wait_for(1), "it is delivered a day later");
  expect_idle(box);
}

}  // namespace

int main() { return tutorial::run(outcomes, retry, order, batches, fan_out, interceptors, delays); }
