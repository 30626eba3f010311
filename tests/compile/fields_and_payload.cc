// says: a described event has .field(...)s or one .payload(encode, decode), not both
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .global()
      .field("id", &Order::id)
      .payload([](const Order& order) { return outbox::bytes(order.id); },
               [](std::string_view text) { return Order{.id = std::string(text)}; });
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
