// Structs that are described wrongly on purpose; see tests/compile/try.
#include <string>

#include "outbox/typed/publisher.h"

struct Order {
  std::string id;
  int cents = 0;
};

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners& on);

// What the others are measured by.
#ifdef CASE_good
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id).field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners& on) {
  publisher.publish(Order{});
  publisher.publish_all(Order{}, Order{});
  on.on<Order>([](const Order&) {});
}
#endif

#ifdef CASE_another_struct
// says: describe(outbox::Type<T>) returns the description of another struct
struct Copied {
  std::string id;
};

constexpr auto describe(outbox::Type<Copied>) {
  return outbox::event<Order>("Copied").global().field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Copied{});
}
#endif

#ifdef CASE_enum_without_list
// says: an enum with outbox_name() needs a describe(outbox::Type<E>)
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
#endif

#ifdef CASE_fields_and_payload
// says: a described event has .field(...)s or one .payload(encode, decode), not both
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .global()
      .field("id", &Order::id)
      .payload([](const Order& order) { return outbox::bytes(order.id); },
               [](std::string_view text) { return Order{.id = std::string(text)}; });
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_no_aggregate
// says: the description of an event needs .aggregate(type, id) or .global()
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_no_default
// says: a struct that is read by its fields needs a default constructor
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
#endif

#ifdef CASE_no_describe
// says: describe(outbox::Type<T>) is missing
void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_no_describe_for_listener
// says: describe(outbox::Type<T>) is missing
void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Order>([](const Order&) {});
}
#endif

#ifdef CASE_no_event
// says: describe(outbox::Type<T>) does not describe an event
constexpr auto describe(outbox::Type<Order>) {
  return outbox::object<Order>().field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_no_payload
// says: a described event needs .field(...)s or .payload(encode, decode)
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_two_versions
// says: a described event has at most one .public_id() and one .aggregate_version()
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .aggregate("Order", &Order::id)
      .aggregate_version(&Order::cents)
      .aggregate_version([](const Order& order) { return order.cents + 1; })
      .field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_unknown_field_type
// says: a field must be a bool, a number, a std::string, an enum
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
#endif

#ifdef CASE_wrong_answer
// says: a listener returns nothing or an outbox::Outcome
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id).field("id", &Order::id);
}

void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Order>([](const Order&) { return true; });
}
#endif

#ifdef CASE_wrong_getter
// says: an id or version of an event is a member of it, or a function of (const T&)
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .aggregate("Order", [](const std::string& id) { return id; })
      .field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif

#ifdef CASE_wrong_id
// says: an id of an event must be text or an integer
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
#endif

#ifdef CASE_wrong_listener
// says: a listener of T takes (const T&), (const T&, const Event&) or
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order").aggregate("Order", &Order::id).field("id", &Order::id);
}

void use(outbox::DomainEventPublisher&, outbox::Listeners& on) {
  on.on<Order>([](const std::string&) {});
}
#endif

#ifdef CASE_wrong_upcast
// says: the function of .upcast() takes an outbox::JsonValue and returns one
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
#endif

#ifdef CASE_wrong_version
// says: the version of an aggregate must be an integer that a std::int64_t can hold
constexpr auto describe(outbox::Type<Order>) {
  return outbox::event<Order>("Order")
      .aggregate("Order", &Order::id)
      .aggregate_version(&Order::id)
      .field("id", &Order::id);
}

void use(outbox::DomainEventPublisher& publisher, outbox::Listeners&) {
  publisher.publish(Order{});
}
#endif
