// says: a field must be a bool, a number, a std::string, an enum
#include "order.h"

struct Shipped {
  std::string id;
  Order order;
};

constexpr auto describe(outbox::Type<Shipped>) {
  return outbox::event<Shipped>("Shipped").global().field("order", &Shipped::order);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Shipped{});
}
