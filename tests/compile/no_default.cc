// says: a struct that is read by its fields needs a default constructor
#include "order.h"

struct Paid {
  explicit Paid(int paid) : cents(paid) {}
  int cents;
};

constexpr auto describe(outbox::Type<Paid>) {
  return outbox::event<Paid>("Paid").global().field("cents", &Paid::cents);
}

void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Paid>([](const Paid&) {});
}
