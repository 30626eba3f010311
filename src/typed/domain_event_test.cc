#include "outbox/typed/domain_event.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "outbox/error.h"
#include "outbox/telemetry/tracing.h"
#include "outbox/testing.h"
#include "typed/domain_event_test_util.h"

namespace shop {
namespace {

using namespace std::chrono_literals;
using outbox::Delivery;
using outbox::Draft;
using outbox::Event;
using outbox::Headers;
using outbox::json;
using outbox::Listeners;
using outbox::MisuseError;
using outbox::Outcome;
using outbox::PermanentError;
using outbox::RequestContext;
using outbox::RequestScope;

template <class T>
Event published(const T& event, outbox::PublishOptions options = {}) {
  return outbox::make_event(outbox::to_draft(event, std::move(options)));
}

std::string header(const Event& event, std::string_view key) {
  return std::string(event.header(key).value_or("(none)"));
}

// --- writing ---

TEST(DomainEvent, IsWrittenAsDescribed) {
  const Event event = published(an_order());
  EXPECT_EQ(event.type(), "OrderPlaced");
  EXPECT_EQ(event.aggregate_type(), "Order");
  EXPECT_EQ(event.aggregate_id(), "42");
  EXPECT_EQ(event.payload(),
            R"({"order":"42","number":"ord_7Q2M","cents":1999,"items":[{"sku":"tea","count":2},)"
            R"({"sku":"cup","count":1}],"currency":"EUR"})");
  EXPECT_EQ(event.headers(),
            (Headers{{"event-id", event.id()}, {"event-version", "3"}, {"public-id", "ord_7Q2M"}}));
}

TEST(DomainEvent, IdsMayBeNumbersAndTheAggregateMayBeNone) {
  const Event counted = published(StockCounted{.shelf = 7, .version = 12, .pieces = 3});
  EXPECT_EQ(counted.aggregate_id(), "7");
  EXPECT_EQ(outbox::aggregate_version(counted), 12);
  const Event closed = published(ShopClosed{true});
  EXPECT_EQ(closed.aggregate_type(), outbox::kGlobalAggregate);
  EXPECT_EQ(closed.aggregate_id(), "");
  EXPECT_EQ(outbox::aggregate_version(closed), std::nullopt);
  EXPECT_THROW(outbox::aggregate_version(stored_order(json("{}"), {{"aggregate-version", "1x"}})),
               PermanentError);
}

TEST(DomainEvent, CarriesTheRequestTheTraceAndTheTenant) {
  const RequestScope scope{{.request_id = "r-1", .operator_id = "ann", .tenant_id = "acme"}};
  const outbox::TraceScope trace{
      outbox::parse_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")};
  const Event event = published(an_order());
  EXPECT_EQ(header(event, "request-id"), "r-1");
  EXPECT_EQ(header(event, "operator"), "ann");
  EXPECT_EQ(header(event, "tenant-id"), "acme");
  EXPECT_EQ(header(event, "trace-id"), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(event.tenant_id(), "acme");
  EXPECT_EQ(outbox::request_of(event),
            (RequestContext{.request_id = "r-1",
                            .operator_id = "ann",
                            .tenant_id = "acme",
                            .trace_id = "0af7651916cd43dd8448eb211c80319c"}));
}

TEST(DomainEvent, WhatTheUserPassesGoesFirst) {
  const RequestScope scope{{.request_id = "r-1", .tenant_id = "acme", .trace_id = "t-1"}};
  const outbox::Time then{1'700'000'000s};
  const Draft draft = outbox::to_draft(
      an_order(), {.headers = {{"request-id", "mine"}, {"tenant-id", "other"}, {"extra", "x"}},
                   .deliver_after = 5s,
                   .id = "id-1",
                   .occurred_at = then});
  EXPECT_EQ(draft.headers, (Headers{{"event-id", "id-1"},
                                    {"event-version", "3"},
                                    {"extra", "x"},
                                    {"public-id", "ord_7Q2M"},
                                    {"request-id", "mine"},
                                    {"tenant-id", "other"},
                                    {"trace-id", "t-1"}}));
  EXPECT_EQ(draft.tenant_id, "other");
  EXPECT_EQ(draft.id, "id-1");
  EXPECT_EQ(draft.occurred_at, then);
  EXPECT_EQ(draft.deliver_after, 5s);
  EXPECT_EQ(draft.deliver_at, std::nullopt);
}

TEST(DomainEvent, ScopesOfRequestsEndWhereTheyShould) {
  EXPECT_EQ(outbox::current_request(), RequestContext{});
  {
    const RequestScope outer{{.request_id = "outer"}};
    {
      const RequestScope inner{{.operator_id = "ann"}};
      EXPECT_EQ(outbox::current_request(), (RequestContext{.operator_id = "ann"}));
    }
    EXPECT_EQ(outbox::current_request().request_id, "outer");
  }
  EXPECT_EQ(outbox::current_request(), RequestContext{});
}

// --- reading ---

TEST(DomainEvent, ComesBackAsItWasPublished) {
  OrderPlaced order = an_order();
  EXPECT_EQ(outbox::from_event<OrderPlaced>(published(order)), order);
  order.coupon = "TEA";
  EXPECT_EQ(outbox::from_event<OrderPlaced>(published(order)), order);
}

TEST(DomainEvent, OldVersionsAreBroughtUpOneAfterTheOther) {
  const char* v1 = R"({"order":"42","number":"n","amount":20,"items":[]})";
  const char* v2 = R"({"order":"42","number":"n","cents":"2000","items":[]})";
  const OrderPlaced order{.order = "42", .number = "n", .cents = 2000, .currency = "EUR"};
  // Without the header it is the first.
  EXPECT_EQ(outbox::from_event<OrderPlaced>(stored_order(json(v1))), order);
  EXPECT_EQ(outbox::from_event<OrderPlaced>(stored_order(json(v1), {{"event-version", "1"}})),
            order);
  EXPECT_EQ(outbox::from_event<OrderPlaced>(stored_order(json(v2), {{"event-version", "2"}})),
            order);
}

TEST(DomainEvent, WhatCannotBeReadIsPermanentAndSaysWhy) {
  const auto refused = [](const Event& event) {
    return error_of<PermanentError>([&] { outbox::from_event<OrderPlaced>(event); });
  };
  EXPECT_EQ(refused(stored_order(json("{}"), {{"event-version", "4"}})),
            "OrderPlaced is of version 4, versions up to 3 are known here: update this consumer, "
            "then replay the event");
  for (const char* bad : {"", "0", "-1", "x", "1x", "99999999999"}) {
    EXPECT_NE(refused(stored_order(json("{}"), {{"event-version", bad}}))
                  .find("a number from 1 on is wanted"),
              std::string::npos);
  }
  EXPECT_EQ(refused(stored_order(json(R"({"order":"42"})"), {{"event-version", "3"}})),
            "OrderPlaced version 3: number: found nothing, wanted a string; a field that may be "
            "missing is optional or has a fallback");
  EXPECT_EQ(refused(stored_order(json(R"({"order":"42"})"), {{"event-version", "1"}})),
            "OrderPlaced version 1 (brought to 3): found an object without the key \"amount\"");
  EXPECT_EQ(refused(stored_order(json("[]"), {{"event-version", "3"}})),
            "OrderPlaced version 3: found an array, wanted an object");
  EXPECT_EQ(refused(stored_order(outbox::bytes("x"), {{"event-version", "3"}})),
            "OrderPlaced version 3: found a payload of bytes (\"application/octet-stream\"), "
            "wanted JSON");
  EXPECT_NE(refused(stored_order(json(R"({"a":1,"a":2})"), {{"event-version", "3"}}))
                .find("duplicate key \"a\" at byte 7"),
            std::string::npos);
  const std::string other = refused(published(ShopClosed{}));
  EXPECT_NE(other.find("is of type __GLOBAL__/ShopClosed, Order/OrderPlaced is wanted"),
            std::string::npos);
}

struct Renamed {
  int a = 0;
};
constexpr auto describe(outbox::Type<Renamed>) {
  return outbox::event<Renamed>("Renamed")
      .version(3)
      .global()
      .field("a", &Renamed::a)
      .upcast(2, [](outbox::JsonValue old) { return old; });
}

TEST(DomainEvent, AnOldVersionWithoutAWayUpIsPermanent) {
  const Event event = outbox::make_event({.type = "Renamed", .payload = json(R"({"a":1})")});
  EXPECT_EQ(error_of<PermanentError>([&] { outbox::from_event<Renamed>(event); }),
            "Renamed is of version 1, and its description has no .upcast(1, ...) on the way to "
            "version 3");
}

struct Crooked {
  int a = 0;
};
constexpr auto describe(outbox::Type<Crooked>) {
  return outbox::event<Crooked>("Crooked")
      .global()
      .field("a", &Crooked::a)
      .upcast(1, [](outbox::JsonValue old) { return old; });
}

TEST(DomainEvent, AnInvalidDescriptionIsRefusedWhenItIsUsed) {
  EXPECT_EQ(error_of<MisuseError>([] { outbox::to_draft(Crooked{}); }),
            "the description of Crooked has an upcast from 1 but is of version 1, upcasts begin at "
            "a version before that");
  EXPECT_THROW(Listeners().on<Crooked>([](const Crooked&) {}), MisuseError);
}

// --- payloads of one's own ---

struct Scanned {
  std::string code;
};
auto describe(outbox::Type<Scanned>) {
  return outbox::event<Scanned>("Scanned")
      .aggregate("Gate", [](const Scanned& scanned) { return scanned.code.substr(0, 1); })
      .payload([](const Scanned& scanned) { return outbox::bytes(scanned.code, "text/x-code"); },
               [](std::string_view text) {
                 if (text == "unreachable")
                   throw outbox::UnavailableError("the decoder is unreachable");
                 if (text.size() != 2) throw std::runtime_error("two characters are wanted");
                 return Scanned{std::string(text)};
               });
}

TEST(DomainEvent, MayHaveAPayloadOfItsOwn) {
  const Event event = published(Scanned{"A\xFF"});
  EXPECT_FALSE(event.is_json());
  EXPECT_EQ(event.content_type(), "text/x-code");
  EXPECT_EQ(event.aggregate_id(), "A");
  EXPECT_EQ(outbox::from_event<Scanned>(event).code, "A\xFF");
  const auto stored = [](const char* code) {
    return outbox::make_event(
        {.type = "Scanned", .aggregate_type = "Gate", .payload = outbox::bytes(code)});
  };
  EXPECT_EQ(error_of<PermanentError>([&] { outbox::from_event<Scanned>(stored("ABC")); }),
            "Scanned version 1: two characters are wanted");
  EXPECT_THROW(outbox::from_event<Scanned>(stored("unreachable")), outbox::UnavailableError);
}

struct Versioned {
  std::string text;
};
constexpr auto describe(outbox::Type<Versioned>) {
  return outbox::event<Versioned>("Versioned")
      .version(2)
      .global()
      .payload([](const Versioned& v) { return json("\"" + v.text + "\""); },
               [](std::string_view text, int version) {
                 return Versioned{std::to_string(version) + std::string(text)};
               });
}

TEST(DomainEvent, ADecoderThatAsksForTheVersionReadsAllOfThem) {
  EXPECT_EQ(outbox::from_event<Versioned>(published(Versioned{"x"})).text, "2\"x\"");
  const Event old = outbox::make_event({.type = "Versioned", .payload = json("1")});
  EXPECT_EQ(outbox::from_event<Versioned>(old).text, "11");
}

struct Wrapped {
  std::string text;
};
constexpr auto describe(outbox::Type<Wrapped>) {
  return outbox::event<Wrapped>("Wrapped")
      .version(2)
      .global()
      .payload([](const Wrapped& w) { return json(w.text); },
               [](std::string_view text) { return Wrapped{std::string(text)}; })
      .upcast(1, [](outbox::JsonValue old) { return outbox::JsonValue::array({old}); });
}

TEST(DomainEvent, OldPayloadsOfOnesOwnAreBroughtUpIfTheyAreJson) {
  const Event old = outbox::make_event({.type = "Wrapped", .payload = json(" 7 ")});
  EXPECT_EQ(outbox::from_event<Wrapped>(old).text, "[7]");
  EXPECT_EQ(outbox::from_event<Wrapped>(published(Wrapped{"[ 8 ]"})).text, "[ 8 ]");
}

// --- listening ---

Outcome deliver(const Listeners& on, const Event& event, Delivery delivery = {}) {
  const outbox::Route* route = on.find(event.aggregate_type(), event.type());
  if (route == nullptr || !route->listener) throw std::runtime_error("nobody listens");
  return route->listener->on_event(event, delivery);
}

TEST(DomainEvent, ListenersTakeWhatTheyNeed) {
  std::string calls;
  const Event event = published(an_order());
  {
    Listeners on;
    on.on<OrderPlaced>([&](const OrderPlaced& order) { calls += order.order + ' '; });
    EXPECT_EQ(deliver(on, event).kind(), Outcome::Kind::done);
  }
  {
    Listeners on;
    on.on<OrderPlaced>([&](const OrderPlaced& order, const Event& e) {
      calls += order.number + (e.id() == event.id() ? " same " : " other ");
      return Outcome::retry_after(1s);
    });
    EXPECT_EQ(deliver(on, event).kind(), Outcome::Kind::retry_after);
  }
  {
    Listeners on;
    on.on<OrderPlaced>([&](const OrderPlaced&, const Event&, const Delivery& delivery) {
      calls += std::to_string(delivery.attempt);
    });
    deliver(on, event, {.attempt = 3});
  }
  EXPECT_EQ(calls, "42 ord_7Q2M same 3");
}

TEST(DomainEvent, HandlersOfAFanOutAreTypedToo) {
  int cents = 0;
  Listeners on;
  on.fan_out<OrderPlaced>(
      {outbox::handler<OrderPlaced>("bill",
                                    [&](const OrderPlaced& order) {
                                      cents += 1;
                                      (void)order;
                                    }),
       outbox::handler<OrderPlaced>("raw", std::make_shared<outbox::testing::RecordingListener>())},
      {.max_attempts = 2});
  const outbox::Route* route = on.find("Order", "OrderPlaced");
  ASSERT_NE(route, nullptr);
  ASSERT_EQ(route->fan_out.size(), 2U);
  EXPECT_EQ(route->options.max_attempts, 2);
  for (const auto& handler : route->fan_out) handler.listener->on_event(published(an_order()), {});
  EXPECT_EQ(cents, 1);
}

TEST(DomainEvent, AListenerThatIsNullIsRefused) {
  EXPECT_THROW(Listeners().on<OrderPlaced>(std::function<void(const OrderPlaced&)>()), MisuseError);
  EXPECT_THROW(Listeners().on<OrderPlaced>(std::shared_ptr<outbox::Listener>()), MisuseError);
}

TEST(DomainEvent, AListenerRunsForTheRequestOfItsEvent) {
  Event first = [] {
    const RequestScope scope{{.request_id = "r-1", .operator_id = "ann", .tenant_id = "acme"}};
    return published(an_order());
  }();
  std::optional<Event> second;
  std::optional<Event> third;
  Listeners on;
  on.on<OrderPlaced>([&](const OrderPlaced&) { second = published(ShopClosed{}); });
  on.on<ShopClosed>(outbox::listener([&](const Event&) { third = published(an_order()); }));
  deliver(on, first);
  ASSERT_TRUE(second);
  EXPECT_EQ(header(*second, "request-id"), "r-1");
  EXPECT_EQ(header(*second, "operator"), "ann");
  EXPECT_EQ(second->tenant_id(), "acme");
  deliver(on, *second);
  ASSERT_TRUE(third);
  EXPECT_EQ(header(*third, "request-id"), "r-1");
  EXPECT_EQ(outbox::current_request(), RequestContext{});
}

}  // namespace
}  // namespace shop
