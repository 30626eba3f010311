// says: an id or version of an event is a member of it, or a function of (const T&)
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .aggregate("Order", [](const std::string& id) { return id; })
      .field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
