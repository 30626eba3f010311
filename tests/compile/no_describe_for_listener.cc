// says: describe(outbox::Type<T>) is missing
#include "order.h"

void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Order>([](const Order&) {});
}
