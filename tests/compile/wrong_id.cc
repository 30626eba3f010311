// says: an id of an event must be text or an integer
#include "order.h"

struct Weighed {
  double grams = 0;
};

constexpr auto describe(outbox::Type<Weighed>) {
  return outbox::event<Weighed>("Weighed")
      .aggregate("Scale", &Weighed::grams)
      .field("grams", &Weighed::grams);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Weighed{});
}
