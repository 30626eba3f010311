// says: a described event has at most one .public_id() and one .aggregate_version()
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .aggregate("Order", &Order::id)
      .aggregate_version(&Order::cents)
      .aggregate_version([](const Order& order) { return order.cents + 1; })
      .field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
