// says: describe(outbox::Type<T>) does not describe an event
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::object<Order>().field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
