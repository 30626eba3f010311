// Several instances, the modes, health and pause.
#include <iostream>
#include <memory>
#include <string>

#include "common.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;
using tutorial::expect;
using tutorial::expect_idle;
using tutorial::expect_soon;
using tutorial::order_placed;
using tutorial::Scratch;

struct Receiver {
  Receiver() { on.add("Order", "OrderPlaced", received); }

  std::shared_ptr<outbox::testing::RecordingListener> received =
      std::make_shared<outbox::testing::RecordingListener>();
  outbox::Listeners on;
};

void standing_by(const Scratch& scratch) {
  const std::string path = scratch.file("shop.db");
  const Receiver receiver;
  const outbox::Listeners& on = receiver.on;
  // [standby]
  outbox::Outbox first{outbox::sqlite::open(path), on, {.name = "shop-1"}};
  outbox::Outbox second{outbox::sqlite::open(path), on, {.name = "shop-2"}};
  first.start();
  second.start();  // one of the two owns the table and delivers; the other one is the standby
  // [/standby]
  expect_soon([&] { return first.owner() || second.owner(); }, "one of them owns the table");
  outbox::Outbox& owner = first.owner() ? first : second;
  outbox::Outbox& other = first.owner() ? second : first;
  owner.close();
  expect_soon([&] { return other.owner(); }, "the other one takes over");
  tutorial::write(other, order_placed("42"));
  expect_idle(other);
  expect(receiver.received->count() == 1, "it is delivered once");
}

void row_claims(const Scratch& scratch) {
  const std::string path = scratch.file("shop.db");
  const Receiver receiver;
  const outbox::Listeners& on = receiver.on;
  // [row-claims]
  const outbox::Options options{.mode = outbox::Mode::multi_node,
                                .ordering = outbox::Ordering::none,
                                .row_claims = true,
                                .lease = {.claim = 5min}};
  outbox::Outbox first{outbox::sqlite::open(path), on, options};
  outbox::Outbox second{outbox::sqlite::open(path), on, options};
  // [/row-claims]
  first.start();
  second.start();
  outbox::Writer writer{outbox::sqlite::open(path)};  // as if in a third process
  for (int i = 0; i < 100; ++i) {
    auto tx = writer.begin();
    tx.write(order_placed(std::to_string(i)));
    tx.commit();
  }
  expect_idle(first);
  expect(receiver.received->count() == 100, "each is delivered once");
}

void ordered(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  const Receiver receiver;
  const outbox::Listeners& on = receiver.on;
  // [ordered]
  outbox::Outbox box{db, on, {.mode = outbox::Mode::ordered}};
  // [/ordered]
  box.start();
  for (int i = 0; i < 20; ++i) {
    auto draft = order_placed(std::to_string(i));
    draft.payload = outbox::json(std::to_string(i));
    tutorial::write(box, draft);
  }
  expect_idle(box);
  for (int i = 0; i < 20; ++i) {
    expect(receiver.received->payloads().at(static_cast<std::size_t>(i)) == std::to_string(i),
           "they come one after the other");
  }
}

void writer_only(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  // [writer-only]
  outbox::Outbox box{db, {}, {.mode = outbox::Mode::writer_only}};
  // [/writer-only]
  tutorial::write(box, order_placed("42"));
  expect(db->has_pending(), "it is written and not delivered");
}

void health_and_pause(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  const Receiver receiver;
  outbox::Outbox box{db, receiver.on};
  box.start();
  // [health]
  const outbox::Health health = box.health();
  std::cout << "/livez " << (health.live ? 200 : 503) << ", /readyz " << (health.ready ? 200 : 503)
            << '\n';
  for (const std::string& reason : health.reasons) std::cout << "  " << reason << '\n';
  // [/health]
  expect(health.live && health.ready, "all is well");

  // [pause]
  box.pause("Order", "OrderPlaced");  // its events wait, those of other listeners go on
  // [/pause]
  tutorial::write(box, order_placed("42"));
  expect(!box.health().reasons.empty(), "health tells of the pause");
  // [resume]
  box.resume("Order", "OrderPlaced");
  // [/resume]
  expect_idle(box);
  expect(receiver.received->count() == 1, "it is delivered after the pause");
  // [close]
  box.close();  // finishes what it has begun, and hands over what it owned
  // [/close]
  expect(!box.health().ready, "a closed one is not ready");
}

}  // namespace

int main() {
  return tutorial::run(standing_by, row_claims, ordered, writer_only, health_and_pause);
}
