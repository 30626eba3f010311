// says: an enum with outbox_name() needs a describe(outbox::Type<E>)
#include "order.h"

enum class Size { small, big };
constexpr std::string_view outbox_name(Size size) { return size == Size::big ? "big" : "small"; }

struct Packed {
  Size size = Size::small;
};

constexpr auto describe(outbox::Type<Packed>) {
  return outbox::event<Packed>("Packed").global().field("size", &Packed::size);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Packed{});
}
