// says: a listener of T takes (const T&), (const T&, const Event&) or
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id).field("id", &Order::id);
}

void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Order>([](const std::string&) {});
}
