#include "outbox/typed/publisher.h"

#include <gtest/gtest.h>

#include <list>
#include <stdexcept>
#include <thread>

#include "outbox/error.h"
#include "outbox/memory.h"
#include "outbox/testing.h"
#include "outbox/typed/recording_publisher.h"
#include "typed/domain_event_test_util.h"

namespace shop {
namespace {

using namespace std::chrono_literals;
using outbox::Event;
using outbox::Listeners;
using outbox::MisuseError;
using outbox::Outcome;
using outbox::PermanentError;
using outbox::RetryableError;
using outbox::testing::RecordingPublisher;

std::vector<std::string> types_of(const std::vector<Event>& events) {
  std::vector<std::string> types;
  for (const Event& event : events) types.push_back(event.type());
  return types;
}

// --- through the outbox ---

class TransactionalPublisherTest : public ::testing::Test {
 protected:
  std::shared_ptr<outbox::Store> store = outbox::memory::open();
  outbox::testing::RecordingLog log;
  outbox::Writer writer{store, {.log = log.log()}};
  std::unique_ptr<outbox::DomainEventPublisher> publisher = outbox::transactional_publisher(writer);
};

TEST_F(TransactionalPublisherTest, WritesInTheTransactionThatItIsGiven) {
  auto tx = writer.begin();
  const std::string id = publisher->publish(tx, an_order());
  EXPECT_FALSE(store->admin().find(id).has_value());
  tx.commit();
  const auto row = store->admin().find(id);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->row.event.header("event-id"), id);
  EXPECT_EQ(outbox::from_event<OrderPlaced>(row->row.event), an_order());
}

TEST_F(TransactionalPublisherTest, FindsTheTransactionOfTheThread) {
  auto tx = writer.begin();
  const std::string id = publisher->publish(an_order());
  tx.rollback();
  EXPECT_FALSE(store->admin().find(id).has_value());
}

TEST_F(TransactionalPublisherTest, OutsideATransactionItFailsAtOnce) {
  const std::string error = error_of<MisuseError>([&] { publisher->publish(an_order()); });
  EXPECT_NE(error.find("needs an open transaction"), std::string::npos) << error;
  EXPECT_THROW(publisher->publish_all(std::vector<OrderPlaced>()), MisuseError);
}

TEST_F(TransactionalPublisherTest, PublishesSeveralAtOnce) {
  auto tx = writer.begin();
  std::vector<std::string> ids =
      publisher->publish_all(tx, an_order(), ShopClosed{}, StockCounted{.shelf = 1});
  const std::list<ShopClosed> more(2);
  for (auto& id : publisher->publish_all(tx, more)) ids.push_back(id);
  for (auto& id : publisher->publish_all(more)) ids.push_back(id);
  for (auto& id : publisher->publish_all(ShopClosed{}, an_order())) ids.push_back(id);
  const std::vector<outbox::Draft> drafts{outbox::to_draft(an_order(), {.id = "own-id"}),
                                          {.type = "Plain", .payload = outbox::json("1")}};
  for (auto& id : publisher->publish_all(tx, drafts)) ids.push_back(id);
  tx.commit();
  ASSERT_EQ(ids.size(), 11U);
  EXPECT_EQ(ids[9], "own-id");
  std::vector<Event> events;
  for (const auto& id : ids) events.push_back(store->admin().find(id).value().row.event);
  EXPECT_EQ(types_of(events),
            (std::vector<std::string>{"OrderPlaced", "ShopClosed", "StockCounted", "ShopClosed",
                                      "ShopClosed", "ShopClosed", "ShopClosed", "ShopClosed",
                                      "OrderPlaced", "OrderPlaced", "Plain"}));
}

TEST_F(TransactionalPublisherTest, IfOneOfSeveralIsWrongNoneIsWritten) {
  auto tx = writer.begin();
  OrderPlaced bad = an_order();
  bad.items[1].sku = "\xFF";
  const std::string error =
      error_of<MisuseError>([&] { publisher->publish_all(tx, ShopClosed{}, bad); });
  EXPECT_NE(error.find("OrderPlaced version 3: items[1].sku must be UTF-8"), std::string::npos)
      << error;
  tx.commit();
  EXPECT_EQ(store->admin().count({}), 0);
}

// --- at once ---

TEST(InMemoryPublisher, CallsTheListenerInTheCallingThread) {
  Listeners on;
  std::vector<OrderPlaced> orders;
  const auto here = std::this_thread::get_id();
  on.on<OrderPlaced>([&](const OrderPlaced& order) {
    EXPECT_TRUE(std::this_thread::get_id() == here);
    orders.push_back(order);
  });
  const auto publisher = outbox::in_memory_publisher(on);
  EXPECT_EQ(publisher->publish(an_order(), {.deliver_after = 1h, .id = "own-id"}), "own-id");
  EXPECT_EQ(orders, std::vector<OrderPlaced>{an_order()});
}

TEST(InMemoryPublisher, WithoutAListenerItIsPermanent) {
  const auto publisher = outbox::in_memory_publisher({});
  EXPECT_EQ(error_of<PermanentError>([&] { publisher->publish(an_order()); }),
            "no listener for aggregate type \"Order\", event type \"OrderPlaced\"");
}

TEST(InMemoryPublisher, ErrorsOfTheListenerReachTheCaller) {
  const auto publish = [](auto listener) {
    Listeners on;
    on.on<OrderPlaced>(listener);
    outbox::in_memory_publisher(on)->publish(an_order());
  };
  using Order = const OrderPlaced&;
  const auto throwing = [](Order) { throw std::out_of_range("as it is"); };
  EXPECT_THROW(publish(throwing), std::out_of_range);
  EXPECT_EQ(error_of<RetryableError>([&] { publish([](Order) { return Outcome::failed("f"); }); }),
            "f");
  EXPECT_EQ(
      error_of<PermanentError>([&] { publish([](Order) { return Outcome::permanent("p"); }); }),
      "p");
  EXPECT_EQ(error_of<outbox::UnavailableError>(
                [&] { publish([](Order) { return Outcome::unavailable("u"); }); }),
            "u");
  try {
    publish([](Order) { return Outcome::retry_after(5s); });
    FAIL() << "nothing was thrown";
  } catch (const outbox::RetryAfterError& error) {
    EXPECT_EQ(error.delay(), 5s);
  }
}

TEST(InMemoryPublisher, CallsAllOfAFanOutAndTellsOfTheFirstError) {
  std::string calls;
  const auto handler = [&](const char* name, const char* error) {
    return outbox::handler<OrderPlaced>(name, [&calls, name, error](const OrderPlaced&) {
      calls += name;
      if (error != nullptr) throw std::runtime_error(error);
    });
  };
  Listeners on;
  on.fan_out<OrderPlaced>({handler("a", nullptr), handler("b", "first"), handler("c", nullptr),
                           handler("d", "second")});
  const auto publisher = outbox::in_memory_publisher(on);
  EXPECT_EQ(error_of<std::runtime_error>([&] { publisher->publish(an_order()); }), "first");
  EXPECT_EQ(calls, "abcd");
}

class Batch final : public outbox::BatchListener {
 public:
  std::vector<Outcome> on_events(std::span<const Item> items) override {
    received += items.size();
    return std::vector<Outcome>(outcomes, Outcome::done());
  }
  std::size_t outcomes = 1;
  std::size_t received = 0;
};

TEST(InMemoryPublisher, BatchListenersGetEventsOneByOne) {
  const auto batch = std::make_shared<Batch>();
  Listeners on;
  on.add_batch("Order", "OrderPlaced", batch);
  const auto publisher = outbox::in_memory_publisher(on);
  publisher->publish_all(an_order(), an_order());
  EXPECT_EQ(batch->received, 2U);
  batch->outcomes = 0;
  EXPECT_THROW(publisher->publish(an_order()), RetryableError);
}

TEST(InMemoryPublisher, AllAreCheckedBeforeTheFirstIsDelivered) {
  int calls = 0;
  Listeners on;
  on.on<ShopClosed>([&](const ShopClosed&) { ++calls; });
  const auto publisher = outbox::in_memory_publisher(on);
  const std::vector<outbox::Draft> drafts{outbox::to_draft(ShopClosed{}),
                                          outbox::to_draft(ShopClosed{}, {.id = ""})};
  EXPECT_THROW(publisher->publish_all(drafts), MisuseError);
  EXPECT_EQ(calls, 0);
}

TEST(InMemoryPublisher, AListenerMayPublishInTurnForTheSameRequest) {
  Listeners on;
  std::unique_ptr<outbox::DomainEventPublisher> publisher;
  std::string request;
  on.on<OrderPlaced>([&](const OrderPlaced&) { publisher->publish(ShopClosed{}); });
  on.on<ShopClosed>(
      [&](const ShopClosed&, const Event& event) { request = event.header("request-id").value(); });
  publisher = outbox::in_memory_publisher(on);
  const outbox::RequestScope scope{{.request_id = "r-7"}};
  publisher->publish(an_order());
  EXPECT_EQ(request, "r-7");
}

// --- which one ---

TEST(Publishers, AreChosenByConfiguration) {
  EXPECT_EQ(outbox::publisher_kind("transactional"), outbox::PublisherKind::transactional);
  EXPECT_EQ(outbox::publisher_kind("in_memory"), outbox::PublisherKind::in_memory);
  EXPECT_EQ(error_of<MisuseError>([] { outbox::publisher_kind("kafka"); }),
            "the kind of publisher is \"kafka\", \"transactional\" or \"in_memory\" is wanted");

  int calls = 0;
  Listeners on;
  on.on<ShopClosed>([&](const ShopClosed&) { ++calls; });
  outbox::Writer writer(outbox::memory::open());
  make_publisher(outbox::publisher_kind("in_memory"), writer, on)->publish(ShopClosed{});
  EXPECT_EQ(calls, 1);
  const auto transactional = make_publisher(outbox::publisher_kind("transactional"), writer, on);
  EXPECT_THROW(transactional->publish(ShopClosed{}), MisuseError);
  EXPECT_EQ(calls, 1);
}

// --- for tests ---

TEST(RecordingPublisherTest, RemembersWhatWasPublished) {
  RecordingPublisher publisher;
  publisher.publish(an_order());
  publisher.publish(ShopClosed{true}, {.headers = {{"why", "holidays"}}});
  publisher.publish_all(std::vector<OrderPlaced>(2, an_order()));
  EXPECT_EQ(publisher.events<OrderPlaced>(), std::vector<OrderPlaced>(3, an_order()));
  ASSERT_EQ(publisher.events<ShopClosed>().size(), 1U);
  EXPECT_TRUE(publisher.events<ShopClosed>()[0].forever);
  EXPECT_TRUE(publisher.events<StockCounted>().empty());
  EXPECT_EQ(publisher.drafts().at(1).headers.at("why"), "holidays");
  EXPECT_EQ(types_of(publisher.all()),
            (std::vector<std::string>{"OrderPlaced", "ShopClosed", "OrderPlaced", "OrderPlaced"}));
  EXPECT_EQ(publisher.count(), 4U);
  publisher.clear();
  EXPECT_EQ(publisher.count(), 0U);
}

TEST(RecordingPublisherTest, RefusesWhatAnOutboxWouldRefuse) {
  RecordingPublisher publisher;
  OrderPlaced order = an_order();
  order.order = std::string(129, 'x');
  const std::string error = error_of<MisuseError>([&] { publisher.publish(order); });
  EXPECT_NE(error.find("aggregate_id is 129 characters long"), std::string::npos) << error;
  EXPECT_EQ(publisher.count(), 0U);
}

TEST(RecordingPublisherTest, RefusesAnIdThatWasThereBefore) {
  RecordingPublisher publisher;
  publisher.publish(an_order(), {.id = "first"});
  EXPECT_THROW(publisher.publish(an_order(), {.id = "first"}), MisuseError);
  const outbox::Draft twice = outbox::to_draft(an_order(), {.id = "twice"});
  const std::string error = error_of<MisuseError>([&] { publisher.publish_all(twice, twice); });
  EXPECT_EQ(error,
            "an event with the id \"twice\" was published already: leave the id out, or make it "
            "unique");
  EXPECT_EQ(publisher.count(), 1U);
  publisher.publish_all(twice);
  publisher.clear();
  publisher.publish_all(twice);
  EXPECT_EQ(publisher.count(), 1U);
}

}  // namespace
}  // namespace shop
