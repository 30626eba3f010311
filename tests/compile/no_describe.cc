// says: describe(outbox::Type<T>) is missing
#include "order.h"

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
