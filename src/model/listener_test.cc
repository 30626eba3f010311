#include "outbox/listener.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::string_literals;
using namespace std::chrono_literals;

enum class OrderEvent { placed };
std::string_view outbox_name(OrderEvent) { return "OrderPlaced"; }

class NullBatch final : public BatchListener {
 public:
  std::vector<Outcome> on_events(std::span<const Item> items) override {
    return std::vector<Outcome>(items.size(), Outcome::done());
  }
};

Event some_event() { return Event::restore({.id = "1", .type = "OrderPlaced"}); }

const auto kIgnore = [](const Event&) {};

template <class Call>
std::string fault_of(Call call) {
  try {
    call();
  } catch (const MisuseError& error) {
    return error.what();
  }
  return "(accepted)";
}

// --- Listeners from functions ---

TEST(Listener, IsMadeFromAFunctionOfEveryForm) {
  int calls = 0;
  const Delivery second{.attempt = 2};
  EXPECT_EQ(listener([&](const Event&) { ++calls; })->on_event(some_event(), second).kind(),
            Outcome::Kind::done);
  listener([&](const Event&, const Delivery& d) {
    calls += d.attempt;
  })->on_event(some_event(), second);
  EXPECT_EQ(calls, 3);

  const Outcome later = listener([](const Event&) {
                          return Outcome::retry_after(5s);
                        })->on_event(some_event(), second);
  EXPECT_EQ(later.kind(), Outcome::Kind::retry_after);
  EXPECT_EQ(later.delay(), 5s);
}

TEST(Listener, IsPassedThroughIfItIsOneAlready) {
  const std::shared_ptr<Listener> one = listener(kIgnore);
  EXPECT_EQ(listener(one), one);
}

// --- The routing table ---

TEST(Listeners, FindTheRouteOfExactlyThePair) {
  Listeners on;
  EXPECT_TRUE(on.empty());
  on.add("Order", OrderEvent::placed, kIgnore).add("Tick", kIgnore);
  EXPECT_FALSE(on.empty());
  ASSERT_NE(on.find("Order", "OrderPlaced"), nullptr);
  EXPECT_EQ(on.find("Order", "OrderPlaced")->name, "Order/OrderPlaced");
  EXPECT_NE(on.find(kGlobalAggregate, "Tick"), nullptr);
  EXPECT_EQ(on.find("Order", "Tick"), nullptr);
  EXPECT_EQ(on.find("order", "OrderPlaced"), nullptr);
  EXPECT_EQ(on.find("", ""), nullptr);
}

TEST(Listeners, FindTheOneForAllOtherEventsOnlyIfNobodyElseListens) {
  Listeners on;
  on.otherwise(kIgnore);
  on.otherwise("Order", kIgnore).add("Order", OrderEvent::placed, kIgnore).add("Tick", kIgnore);
  EXPECT_EQ(on.find("Order", "OrderPlaced")->name, "Order/OrderPlaced");
  EXPECT_EQ(on.find("Order", "OrderShipped")->name, "Order/*");
  EXPECT_EQ(on.find("Orders", "OrderPlaced")->name, "*/*");
  EXPECT_EQ(on.find(kGlobalAggregate, "Tick")->name, "__GLOBAL__/Tick");
  EXPECT_EQ(on.find(kGlobalAggregate, "Tock")->name, "*/*");
  EXPECT_EQ(on.routes().size(), 4u);
}

TEST(Listeners, OfOneAggregateTypeAreForNoOther) {
  Listeners on;
  on.otherwise("Order", kIgnore, {.max_attempts = 3});
  EXPECT_FALSE(on.empty());
  EXPECT_EQ(on.find("Order", "OrderShipped")->options.max_attempts, 3);
  EXPECT_EQ(on.find("Customer", "Renamed"), nullptr);
  EXPECT_EQ(on.find(kGlobalAggregate, "Tick"), nullptr);
}

TEST(Listeners, HaveOneForAllOtherEvents) {
  Listeners on;
  on.otherwise(kIgnore).otherwise("Order", kIgnore);
  EXPECT_EQ(fault_of([&] { on.otherwise(kIgnore); }),
            "this table has a listener for all other events already");
  EXPECT_EQ(fault_of([&] { on.otherwise("Order", kIgnore); }),
            "aggregate type \"Order\" has a listener for all other events already");
  EXPECT_EQ(fault_of([&] { on.otherwise("", kIgnore); }),
            "aggregate type of a listener is \"\", 1 to 64 characters are needed");
  EXPECT_EQ(fault_of([&] { on.otherwise("Customer", std::shared_ptr<Listener>()); }),
            "nobody listens to Customer/*: the listener is null or the fan-out is empty");
}

TEST(Listeners, NeverConfuseWhereTheAggregateTypeEnds) {
  Listeners on;
  on.add("a:b", "c", kIgnore).add("a", "b:c", kIgnore).add("c", "a:b", kIgnore);
  on.add("a/b", "c", kIgnore).add("a", "b/c", kIgnore).add("ab", "c", kIgnore);
  EXPECT_NE(on.find("a:b", "c"), on.find("a", "b:c"));
  EXPECT_NE(on.find("a/b", "c"), on.find("a", "b/c"));
  EXPECT_NE(on.find("a:b", "c"), on.find("c", "a:b"));
  EXPECT_EQ(on.find("a", "bc"), nullptr);
}

TEST(Listeners, KeepTheOptionsAndTheKindOfRoute) {
  Listeners on;
  on.add("Order", "A", kIgnore, {.max_attempts = 3, .ordering = Ordering::none});
  on.add_batch("Order", "B", std::make_shared<NullBatch>(), {.max_batch = 7});
  on.fan_out("Order", "C", {handler("mail", kIgnore), handler("stock_2.eu-west", kIgnore)});
  EXPECT_TRUE(on.find("Order", "A")->listener);
  EXPECT_EQ(on.find("Order", "A")->options.max_attempts, 3);
  EXPECT_EQ(on.find("Order", "A")->options.ordering, Ordering::none);
  EXPECT_TRUE(on.find("Order", "B")->batch);
  EXPECT_EQ(on.find("Order", "B")->options.max_batch, 7U);
  EXPECT_EQ(on.find("Order", "C")->fan_out.size(), 2U);
}

TEST(Listeners, RefuseASecondListenerAndNameThePair) {
  Listeners on;
  on.add("Order", "OrderPlaced", kIgnore);
  const std::string fault =
      "aggregate type \"Order\" and event type \"OrderPlaced\" have a listener already; use "
      "fan_out() to call several";
  EXPECT_EQ(fault_of([&] { on.add("Order", OrderEvent::placed, kIgnore); }), fault);
  EXPECT_EQ(fault_of([&] { on.fan_out("Order", "OrderPlaced", {handler("a", kIgnore)}); }), fault);
  EXPECT_TRUE(on.find("Order", "OrderPlaced")->listener) << "the first one stays";
}

TEST(Listeners, RefuseNamesThatNoEventCanHave) {
  Listeners on;
  EXPECT_EQ(fault_of([&] { on.add("", "A", kIgnore); }),
            "aggregate type of a listener is \"\", 1 to 64 characters are needed");
  EXPECT_EQ(fault_of([&] { on.add("Order", "", kIgnore); }),
            "event type of a listener is \"\", 1 to 128 characters are needed");
  EXPECT_EQ(fault_of([&] {
              on.add(std::string(65, 'a'), "A", kIgnore);
            }).find("aggregate type of a listener is 65 characters long, at most 64"),
            0U);
  EXPECT_EQ(fault_of([&] {
              on.add("Order", std::string(129, 'a'), kIgnore);
            }).find("event type of a listener is 129 characters long, at most 128"),
            0U);
  EXPECT_EQ(fault_of([&] {
              on.add("Order", "a\0b"s, kIgnore);
            }).find("event type of a listener must not contain NUL"),
            0U);
  EXPECT_EQ(fault_of([&] {
              on.add("\xFF", "A", kIgnore);
            }).find("aggregate type of a listener must be UTF-8"),
            0U);
  EXPECT_TRUE(on.empty());
}

TEST(Listeners, RefuseRoutesThatReachNobody) {
  Listeners on;
  const std::string fault =
      "nobody listens to Order/A: the listener is null or the fan-out is empty";
  EXPECT_EQ(fault_of([&] { on.add("Order", "A", std::shared_ptr<Listener>{}); }), fault);
  EXPECT_EQ(fault_of([&] { on.add("Order", "A", std::function<void(const Event&)>{}); }), fault);
  EXPECT_EQ(fault_of([&] { on.add("Order", "A", static_cast<void (*)(const Event&)>(nullptr)); }),
            fault);
  EXPECT_EQ(fault_of([&] { on.add_batch("Order", "A", nullptr); }), fault);
  EXPECT_EQ(fault_of([&] { on.fan_out("Order", "A", {}); }), fault);
  EXPECT_EQ(fault_of([&] { on.fan_out("Order", "A", {{.name = "mail"}}); }),
            "handler \"mail\" of Order/A is null");
}

TEST(Listeners, RefuseHandlersWhoseNamesCannotBeStored) {
  for (const std::string& name : {""s, "a,b"s, "a b"s, "a/b"s, "\n"s, "ä"s, "a\0"s}) {
    Listeners on;
    const std::string fault = fault_of([&] {
      on.fan_out("Order", "A", {handler("ok", kIgnore), handler(name, kIgnore)});
    });
    EXPECT_EQ(fault.find("handler of Order/A is named \""), 0U) << fault;
  }
}

TEST(Listeners, RefuseTwoHandlersOfOneName) {
  Listeners on;
  EXPECT_EQ(fault_of([&] {
              on.fan_out(
                  "Order", "A",
                  {handler("mail", kIgnore), handler("b", kIgnore), handler("mail", kIgnore)});
            }),
            "handler \"mail\" of Order/A is used twice, the names must differ");
}

TEST(Listeners, RefuseInvalidOptions) {
  Listeners on;
  EXPECT_EQ(fault_of([&] { on.add("Order", "A", kIgnore, {.max_attempts = 0}); }),
            "max_attempts of Order/A is 0, at least 1 is needed");
  EXPECT_EQ(fault_of([&] { on.add("Order", "A", kIgnore, {.max_attempts = -1}); }),
            "max_attempts of Order/A is -1, at least 1 is needed");
  EXPECT_EQ(fault_of([&] {
              on.add_batch("Order", "A", std::make_shared<NullBatch>(), {.max_batch = 0});
            }),
            "max_batch of Order/A is 0, at least 1 is needed");
}

// --- Interceptors ---

TEST(Interceptors, AreMadeFromFunctions) {
  std::vector<std::string> calls;
  const auto first = before([&](const Event& e) { calls.push_back("before " + e.id()); });
  const auto last = after([&](const Event& e, const std::exception_ptr& error) {
    calls.push_back((error ? "failed " : "after ") + e.id());
  });
  first->before(some_event());
  first->after(some_event(), nullptr);
  last->before(some_event());
  last->after(some_event(), nullptr);
  last->after(some_event(), std::make_exception_ptr(std::runtime_error("no")));
  EXPECT_EQ(calls, (std::vector<std::string>{"before 1", "after 1", "failed 1"}));
}

TEST(Interceptors, RefuseAnEmptyFunction) {
  EXPECT_THROW(before(nullptr), MisuseError);
  EXPECT_THROW(after(nullptr), MisuseError);
}

}  // namespace
}  // namespace outbox
