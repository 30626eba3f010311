// Who receives events, and what wraps the delivery.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/retry.h"
#include "outbox/spi/store.h"

namespace outbox {

// About one delivery of an event.
struct Delivery {
  int attempt = 1;  // 1 for the first

  // `seq` grows with every event, `epoch` with every change of owner. A receiver that
  // remembers the highest epoch can refuse a sender that was declared dead.
  Seq seq = 0;  // 0 if it is not known yet
  std::int64_t epoch = 0;

  // Requested when the dispatcher closes and cannot wait any longer.
  std::stop_token stop{};
};

// The outcome of a delivery. Most listeners just return (done) or
// throw; see error.h for what each kind of error does.
class Outcome {
 public:
  enum class Kind : std::uint8_t { done, retry_after, failed, permanent, unavailable };

  static Outcome done() { return Outcome(Kind::done, {}, {}); }

  // Not now: deliver again after `delay`. No attempt is spent.
  static Outcome retry_after(std::chrono::milliseconds delay) {
    return Outcome(Kind::retry_after, delay, {});
  }

  // As if the listener had thrown; batch listeners need these to report on single events.
  static Outcome failed(std::string error) { return Outcome(Kind::failed, {}, std::move(error)); }
  static Outcome failed(std::string error, std::chrono::milliseconds delay) {
    return Outcome(Kind::failed, delay, std::move(error));
  }
  static Outcome permanent(std::string error) {
    return Outcome(Kind::permanent, {}, std::move(error));
  }
  static Outcome unavailable(std::string error) {
    return Outcome(Kind::unavailable, {}, std::move(error));
  }

  Kind kind() const noexcept { return kind_; }
  const std::optional<std::chrono::milliseconds>& delay() const noexcept { return delay_; }
  const std::string& error() const noexcept { return error_; }

 private:
  Outcome(Kind kind, std::optional<std::chrono::milliseconds> delay, std::string error)
      : kind_(kind), delay_(delay), error_(std::move(error)) {}

  Kind kind_;
  std::optional<std::chrono::milliseconds> delay_;
  std::string error_;
};

// Receives events one at a time; called from many workers concurrently, so it must
// be thread-safe. Events of one aggregate come one after the other.
class OUTBOX_EXPORT Listener {
 public:
  virtual ~Listener() = default;
  virtual Outcome on_event(const Event& event, const Delivery& delivery) = 0;
};

// Receives events in batches, in the order of delivery, and returns one outcome
// for each; must be thread-safe, too. If an event fails, the later ones of its
// aggregate in the batch must not be delivered: return retry_after(0) for them.
// An exception counts for the whole batch.
class OUTBOX_EXPORT BatchListener {
 public:
  virtual ~BatchListener() = default;

  struct Item {
    Event event;
    Delivery delivery;
  };
  virtual std::vector<Outcome> on_events(std::span<const Item> items) = 0;
};

// Which events wait for older ones: those of the same aggregate, none, or all
// of them, one after the other in the order of their rows.
enum class Ordering { per_aggregate, none, total };

struct ListenerOptions {
  // Absent: the dispatcher's.
  std::shared_ptr<const RetryPolicy> retry{};
  std::optional<int> max_attempts{};

  // `none` lets the events of this listener overtake each other. (`total` can only be
  // set for the whole dispatcher, and is refused here.)
  Ordering ordering = Ordering::per_aggregate;

  // Batch listeners: up to this many events per call.
  std::size_t max_batch = 100;
};

// One of several receivers of the same event. The name is stored with the
// event: letters, digits, `_`, `-` and `.` only.
struct Handler {
  std::string name{};
  std::shared_ptr<Listener> listener{};
};

// Where one kind of event goes: exactly one of the three.
struct Route {
  std::shared_ptr<Listener> listener{};
  std::shared_ptr<BatchListener> batch{};
  std::vector<Handler> fan_out{};
  ListenerOptions options{};
  std::string name{};  // for messages: "Order/OrderPlaced", "Order/*"
};

// Makes a listener from a function that takes (event) or (event, delivery) and
// returns nothing or an Outcome. Null if the function is null.
template <class F>
std::shared_ptr<Listener> listener(F function);

// Handler in a fan-out, from anything that listener() takes.
template <class F>
Handler handler(std::string name, F function) {
  return {std::move(name), listener(std::move(function))};
}

// The routing table: one listener for each (aggregate type, event type).
//
//   outbox::Listeners on;
//   on.add("Order", "OrderPlaced", [](const outbox::Event& e) { bill(e); });
//   on.fan_out("Order", "OrderShipped", {outbox::handler("mail", mail),
//                                        outbox::handler("stock", stock)});
//
// Fill it before you pass it to a dispatcher, which keeps its own copy; the
// listeners themselves are shared. Not thread-safe while it is being filled.
class OUTBOX_EXPORT Listeners {
 public:
  // Throw MisuseError if the pair is taken, or an argument is invalid.
  template <class F>
  Listeners& add(const Name& aggregate_type, const Name& type, F function,
                 ListenerOptions options = {}) {
    return add_route(aggregate_type, type,
                     {.listener = listener(std::move(function)), .options = std::move(options)});
  }

  // For events without an aggregate type.
  template <class F>
  requires(!std::convertible_to<F, Name>) Listeners& add(const Name& type, F function,
                                                         ListenerOptions options = {}) {
    return add(kGlobalAggregate, type, std::move(function), std::move(options));
  }

  Listeners& add_batch(const Name& aggregate_type, const Name& type,
                       std::shared_ptr<BatchListener> listener, ListenerOptions options = {}) {
    return add_route(aggregate_type, type,
                     {.batch = std::move(listener), .options = std::move(options)});
  }

  // The event is DONE when all handlers have succeeded; a retry calls only the others. Two handlers
  // of one consumer group (inbox.h, consumption.h) are refused: one would never get an event.
  Listeners& fan_out(const Name& aggregate_type, const Name& type, std::vector<Handler> handlers,
                     ListenerOptions options = {}) {
    return add_route(aggregate_type, type,
                     {.fan_out = std::move(handlers), .options = std::move(options)});
  }

  // A catch-all for events that nobody else here listens to: those of one aggregate type, or all.
  // A listener of the pair takes precedence over one of the aggregate type, and that over this one;
  // each event goes to exactly one of them. With a catch-all for all, no event is unroutable.
  //
  //   on.otherwise([](const outbox::Event& event) { archive(event); });
  template <class F>
  Listeners& otherwise(F function, ListenerOptions options = {}) {
    return add_otherwise(
        std::nullopt, {.listener = listener(std::move(function)), .options = std::move(options)});
  }
  template <class F>
  Listeners& otherwise(const Name& aggregate_type, F function, ListenerOptions options = {}) {
    return add_otherwise(
        aggregate_type, {.listener = listener(std::move(function)), .options = std::move(options)});
  }

  // For described events (describe.h): T's description names the pair. Include
  // domain_event.h, which defines them. `function` takes (const T&), (const T&, const Event&) or
  // (const T&, const Event&, const Delivery&), or is a shared_ptr<Listener>.
  //
  //   on.on<OrderPlaced>([](const OrderPlaced& order) { bill(order.order, order.cents); });
  //   on.fan_out<OrderShipped>({outbox::handler<OrderShipped>("mail", mail), ...});
  template <class T, class F>
  Listeners& on(F function, ListenerOptions options = {});
  template <class T>
  Listeners& fan_out(std::vector<Handler> handlers, ListenerOptions options = {});

  // Who gets the events of that pair. Null if nobody listens. Valid as long as this object.
  const Route* find(std::string_view aggregate_type, std::string_view type) const;

  bool empty() const noexcept { return routes_.empty(); }

  // All routes, in no particular order. Valid as long as this object.
  std::vector<const Route*> routes() const {
    std::vector<const Route*> all;
    for (const auto& [key, route] : routes_) all.push_back(&route);
    return all;
  }

 private:
  struct Key {
    std::string aggregate_type;
    std::string type;
  };
  using KeyView = std::pair<std::string_view, std::string_view>;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const KeyView& key) const noexcept;
    std::size_t operator()(const Key& key) const noexcept {
      return (*this)(KeyView{key.aggregate_type, key.type});
    }
  };
  struct Equal {
    using is_transparent = void;
    static KeyView view(const KeyView& key) { return key; }
    static KeyView view(const Key& key) { return {key.aggregate_type, key.type}; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      return view(a) == view(b);
    }
  };

  Listeners& add_route(const Name& aggregate_type, const Name& type, Route route);
  Listeners& add_otherwise(const std::optional<Name>& aggregate_type, Route route);

  // The empty name, which no event has, stands for all of them.
  std::unordered_map<Key, Route, Hash, Equal> routes_;
};

// Wraps every delivery, for audit, tracing or timing. May be shared by several
// dispatchers; called from many workers, so it must be thread-safe. before()
// and after() of one delivery run on the same thread.
class OUTBOX_EXPORT Interceptor {
 public:
  virtual ~Interceptor() = default;

  // In the order of registration. Throwing counts as a failed attempt.
  virtual void before(const Event& /*event*/) {}

  // Override this one to know which attempt it is: it is called instead of before(),
  // and calls that by default.
  virtual void before_delivery(const Event& event, const Delivery& /*delivery*/) { before(event); }

  // In reverse order, for those whose before() returned. `error` is null on
  // success. Exceptions are logged.
  virtual void after(const Event& /*event*/, const std::exception_ptr& /*error*/) {}
};

OUTBOX_EXPORT std::shared_ptr<Interceptor> before(std::function<void(const Event&)> hook);
OUTBOX_EXPORT std::shared_ptr<Interceptor> after(
    std::function<void(const Event&, const std::exception_ptr&)> hook);

// --- implementation of the templates ---

namespace internal {

// The outcome of a function that returns an Outcome, or nothing.
template <class Call>
Outcome outcome_of_call(Call call) {
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    return Outcome::done();
  } else {
    static_assert(std::is_convertible_v<decltype(call()), Outcome>,
                  "a listener returns nothing or an outbox::Outcome");
    return call();
  }
}

template <class F>
class FunctionListener final : public Listener {
 public:
  explicit FunctionListener(F function) : function_(std::move(function)) {}

  Outcome on_event(const Event& event, const Delivery& delivery) override {
    if constexpr (std::is_invocable_v<F&, const Event&, const Delivery&>) {
      return outcome_of_call([&] { return function_(event, delivery); });
    } else {
      return outcome_of_call([&] { return function_(event); });
    }
  }

 private:
  F function_;
};

template <class F>
bool is_null(const F& /*function*/) {
  return false;
}
template <class R, class... Args>
bool is_null(const std::function<R(Args...)>& function) {
  return !function;
}
template <class R, class... Args>
bool is_null(R (*const& function)(Args...)) {
  return function == nullptr;
}

}  // namespace internal

template <class F>
std::shared_ptr<Listener> listener(F function) {
  if constexpr (std::is_convertible_v<F, std::shared_ptr<Listener>>) {
    return function;
  } else {
    static_assert(std::is_invocable_v<F&, const Event&> ||
                      std::is_invocable_v<F&, const Event&, const Delivery&>,
                  "a listener takes (const Event&) or (const Event&, const Delivery&)");
    if (internal::is_null(function)) return nullptr;
    return std::make_shared<internal::FunctionListener<F>>(std::move(function));
  }
}

}  // namespace outbox
