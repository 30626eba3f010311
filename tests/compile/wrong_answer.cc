// says: a listener returns nothing or an outbox::Outcome
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id).field("id", &Order::id);
}

void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Order>([](const Order&) { return true; });
}
