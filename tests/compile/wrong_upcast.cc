// says: the function of .upcast() takes an outbox::JsonValue and returns one
#include "order.h"

constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .version(2)
      .global()
      .field("id", &Order::id)
      .upcast(1, [](outbox::JsonValue& old) { old.erase("id"); });
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
