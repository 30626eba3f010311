// Domain events from the publisher to the listener, through an outbox.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/publisher.h"
#include "support/temporary_directory.h"
#include "typed/domain_event_test_util.h"

namespace shop {
namespace {

using namespace std::chrono_literals;
using outbox::Event;
using outbox::Listeners;
using outbox::Status;
using outbox::testing::Signal;

// On which store, by name.
class EventsTest : public ::testing::TestWithParam<std::string> {
 protected:
  outbox::Outbox& open(const Listeners& on) {
    store = GetParam() == "memory" ? outbox::memory::open()
                                   : outbox::sqlite::open(directory.file("events.db"));
    box = std::make_unique<outbox::Outbox>(store, on, outbox::Options{.log = log.log()});
    box->start();
    return *box;
  }

  // Closes it in any case: it would outlive what the test's listeners use.
  void finish() {
    EXPECT_TRUE(box->wait_idle(20s));
    box->close();
  }

  outbox::test::TemporaryDirectory directory;
  outbox::testing::RecordingLog log;
  std::shared_ptr<outbox::Store> store;
  std::unique_ptr<outbox::Outbox> box;
};

TEST_P(EventsTest, AStructComesOutAsItWentInAndNothingOfARollback) {
  std::mutex mutex;
  std::vector<OrderPlaced> received;
  Listeners on;
  on.on<OrderPlaced>([&](const OrderPlaced& order) {
    const std::lock_guard lock(mutex);
    received.push_back(order);
  });
  open(on);
  const auto publisher = outbox::transactional_publisher(box->writer());
  {
    auto tx = box->begin();
    publisher->publish(tx, an_order());
  }
  auto tx = box->begin();
  OrderPlaced second = an_order();
  second.coupon = "ä\"\n";
  publisher->publish_all(tx, an_order(), second);
  tx.commit();
  finish();
  const std::lock_guard lock(mutex);
  EXPECT_EQ(received, (std::vector<OrderPlaced>{an_order(), second}));
}

TEST_P(EventsTest, WhatAListenerPublishesBelongsToTheSameRequest) {
  Signal done;
  std::string request;
  std::string tenant;
  std::unique_ptr<outbox::DomainEventPublisher> publisher;
  Listeners on;
  on.on<OrderPlaced>([&](const OrderPlaced&) {
    auto tx = box->begin();
    publisher->publish(tx, ShopClosed{});
    tx.commit();
  });
  on.on<ShopClosed>([&](const ShopClosed&, const Event& event) {
    request = event.header("request-id").value_or("(none)");
    tenant = event.tenant_id();
    done.raise();
  });
  open(on);
  publisher = outbox::transactional_publisher(box->writer());
  {
    const outbox::RequestScope scope{{.request_id = "r-9", .tenant_id = "acme"}};
    auto tx = box->begin();
    publisher->publish(tx, an_order());
    tx.commit();
  }
  EXPECT_TRUE(done.wait());
  finish();
  EXPECT_EQ(request, "r-9");
  EXPECT_EQ(tenant, "acme");
}

TEST_P(EventsTest, OneThatCannotBeReadIsDeadAtOnceAndSaysWhy) {
  int calls = 0;
  Listeners on;
  on.on<OrderPlaced>([&](const OrderPlaced&) { ++calls; });
  open(on);
  auto tx = box->begin();
  const std::string id = tx.write({.type = "OrderPlaced",
                                   .aggregate_type = "Order",
                                   .aggregate_id = "42",
                                   .payload = outbox::json(R"({"order":42})"),
                                   .headers = {{"event-version", "3"}}});
  tx.commit();
  finish();
  const auto found = store->admin().find(id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->row.status, Status::dead);
  EXPECT_EQ(found->row.attempts, 1);
  EXPECT_EQ(found->last_error, "OrderPlaced version 3: order: found a number, wanted a string");
  EXPECT_EQ(calls, 0);
}

INSTANTIATE_TEST_SUITE_P(Stores, EventsTest, ::testing::Values("memory", "sqlite"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace shop
