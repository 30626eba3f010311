// says: the version of an aggregate must be an integer that a std::int64_t can hold
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .aggregate("Order", &Order::id)
      .aggregate_version(&Order::id)
      .field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
