// says: the description of an event needs .aggregate(type, id) or .global()
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
