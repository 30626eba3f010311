// Compiles: what the others are measured by.
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id).field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners& on) {
  publisher.publish(Order{});
  publisher.publish_all(Order{}, Order{});
  on.on<Order>([](const Order&) {});
}
