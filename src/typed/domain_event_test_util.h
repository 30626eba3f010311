// A shop's events, for the tests of domain events.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/typed/domain_event.h"

namespace shop {

struct Item {
  std::string sku{};
  int count = 0;

  friend bool operator==(const Item&, const Item&) = default;
};

constexpr auto describe(outbox::Type<Item>) {
  return outbox::object<Item>().field("sku", &Item::sku).field("count", &Item::count);
}

struct OrderPlaced {
  std::string order{};
  std::string number{};
  std::int64_t cents = 0;
  std::vector<Item> items{};
  std::optional<std::string> coupon{};
  std::string currency{};

  friend bool operator==(const OrderPlaced&, const OrderPlaced&) = default;
};

// Version 1 said `amount`, in whole euros; version 2 said `cents` as text.
constexpr auto describe(outbox::Type<OrderPlaced>) {
  return outbox::event<OrderPlaced>("OrderPlaced")
      .version(3)
      .aggregate("Order", &OrderPlaced::order)
      .public_id(&OrderPlaced::number)
      .field("order", &OrderPlaced::order)
      .field("number", &OrderPlaced::number)
      .field("cents", &OrderPlaced::cents)
      .field("items", &OrderPlaced::items)
      .field("coupon", &OrderPlaced::coupon)
      .field("currency", &OrderPlaced::currency, "EUR")
      .upcast(1,
              [](outbox::JsonValue old) {
                const std::int64_t euros = old.at("amount").as_int();
                old.erase("amount");
                return old.set("cents", std::to_string(euros * 100));
              })
      .upcast(2, [](outbox::JsonValue old) {
        return old.set("cents", outbox::JsonValue::number(old.at("cents").as_string()));
      });
}

struct StockCounted {
  std::uint64_t shelf = 0;
  std::int64_t version = 0;
  int pieces = 0;
};

constexpr auto describe(outbox::Type<StockCounted>) {
  return outbox::event<StockCounted>("StockCounted")
      .aggregate("Shelf", &StockCounted::shelf)
      .aggregate_version(&StockCounted::version)
      .field("pieces", &StockCounted::pieces);
}

struct ShopClosed {
  bool forever = false;
};

constexpr auto describe(outbox::Type<ShopClosed>) {
  return outbox::event<ShopClosed>("ShopClosed").global().field("forever", &ShopClosed::forever);
}

inline OrderPlaced an_order() {
  return {.order = "42",
          .number = "ord_7Q2M",
          .cents = 1999,
          .items = {{"tea", 2}, {"cup", 1}},
          .coupon = std::nullopt,
          .currency = "EUR"};
}

// An event as another program, or an older one, may have written it.
inline outbox::Event stored_order(outbox::Payload payload, outbox::Headers headers = {}) {
  return outbox::make_event({.type = "OrderPlaced",
                             .aggregate_type = "Order",
                             .aggregate_id = "42",
                             .payload = std::move(payload),
                             .headers = std::move(headers)});
}

// What the call throws; a failure if it throws nothing or something else.
template <class E, class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace shop
