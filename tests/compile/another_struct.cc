// says: describe(outbox::Type<T>) returns the description of another struct
#include "order.h"

struct Copied {
  std::string id;
};

constexpr auto describe(outbox::Type<Copied>) {
  return outbox::event<Order>("Copied").global().field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Copied{});
}
