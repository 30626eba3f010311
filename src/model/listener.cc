#include "outbox/listener.h"

#include <algorithm>

#include "base/quote.h"
#include "base/utf8.h"
#include "model/group_listener.h"
#include "model/outcome.h"
#include "outbox/error.h"

namespace outbox {
namespace {

bool is_handler_name(std::string_view name) {
  // Not std::isalnum: what counts as a letter must not hang on the locale.
  const auto allowed = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), allowed);
}

bool share_events(const Listener& a, const Listener& b) {
  const auto* one = dynamic_cast<const internal::GroupListener*>(&a);
  const auto* other = dynamic_cast<const internal::GroupListener*>(&b);
  return one != nullptr && other != nullptr && one->records() == other->records() &&
         one->group() == other->group();
}

// The first would have each event, and the others be told that it was had.
void check_groups(const Route& route) {
  for (auto handler = route.fan_out.begin(); handler != route.fan_out.end(); ++handler) {
    const auto other = std::find_if(route.fan_out.begin(), handler, [&](const Handler& each) {
      return share_events(*each.listener, *handler->listener);
    });
    if (other == handler) continue;
    const auto& listener = dynamic_cast<const internal::GroupListener&>(*handler->listener);
    throw MisuseError("handlers " + quote(other->name) + " and " + quote(handler->name) + " of " +
                      route.name + " are both consumer group " + quote(listener.group()) +
                      ", so one of them would never get an event: give each a group of its own");
  }
}

void check_fan_out(const Route& route) {
  for (auto handler = route.fan_out.begin(); handler != route.fan_out.end(); ++handler) {
    if (!is_handler_name(handler->name)) {
      throw MisuseError("handler of " + route.name + " is named " + quote(handler->name) +
                        ", one or more letters, digits, '_', '-' and '.' are allowed");
    }
    if (!handler->listener) {
      throw MisuseError("handler " + quote(handler->name) + " of " + route.name + " is null");
    }
    const auto same_name = [&](const Handler& other) { return other.name == handler->name; };
    if (std::any_of(route.fan_out.begin(), handler, same_name)) {
      throw MisuseError("handler " + quote(handler->name) + " of " + route.name +
                        " is used twice, the names must differ");
    }
  }
  check_groups(route);
}

void check_route(const Route& route) {
  if (!route.listener && !route.batch && route.fan_out.empty()) {
    throw MisuseError("nobody listens to " + route.name +
                      ": the listener is null or the fan-out is empty");
  }
  check_fan_out(route);
  const ListenerOptions& options = route.options;
  if (options.max_attempts && *options.max_attempts < 1) {
    throw MisuseError("max_attempts of " + route.name + " is " +
                      std::to_string(*options.max_attempts) + ", at least 1 is needed");
  }
  if (options.max_batch == 0) {
    throw MisuseError("max_batch of " + route.name + " is 0, at least 1 is needed");
  }
  if (options.ordering == Ordering::total) {
    throw MisuseError(
        "the listener of " + route.name +
        " asks for a total order, which is possible only for all listeners together: see "
        "Mode::ordered");
  }
}

class Before final : public Interceptor {
 public:
  explicit Before(std::function<void(const Event&)> hook) : hook_(std::move(hook)) {}
  void before(const Event& event) override { hook_(event); }

 private:
  const std::function<void(const Event&)> hook_;
};

class After final : public Interceptor {
 public:
  using Hook = std::function<void(const Event&, const std::exception_ptr&)>;
  explicit After(Hook hook) : hook_(std::move(hook)) {}
  void after(const Event& event, const std::exception_ptr& error) override { hook_(event, error); }

 private:
  const Hook hook_;
};

}  // namespace

const Route* Listeners::find(std::string_view aggregate_type, std::string_view type) const {
  for (const KeyView& key :
       {KeyView{aggregate_type, type}, KeyView{aggregate_type, ""}, KeyView{"", ""}}) {
    if (const auto found = routes_.find(key); found != routes_.end()) return &found->second;
  }
  return nullptr;
}

std::size_t Listeners::Hash::operator()(const KeyView& key) const noexcept {
  // Each part is hashed for itself, so that the border between them counts; the
  // factor keeps ("a", "b") apart from ("b", "a").
  constexpr std::hash<std::string_view> kHash;
  return kHash(key.first) * 31 + kHash(key.second);
}

Listeners& Listeners::add_route(const Name& aggregate_type, const Name& type, Route route) {
  check_name("aggregate type of a listener", aggregate_type.str(), kMaxAggregateTypeLength);
  check_name("event type of a listener", type.str(), kMaxTypeLength);
  route.name = aggregate_type.str() + '/' + type.str();
  check_route(route);
  const bool added =
      routes_.try_emplace(Key{aggregate_type.str(), type.str()}, std::move(route)).second;
  if (!added) {
    throw MisuseError("aggregate type " + quote(aggregate_type.str()) + " and event type " +
                      quote(type.str()) +
                      " have a listener already; use fan_out() to call several");
  }
  return *this;
}

Listeners& Listeners::add_otherwise(const std::optional<Name>& aggregate_type, Route route) {
  if (aggregate_type) {
    check_name("aggregate type of a listener", aggregate_type->str(), kMaxAggregateTypeLength);
  }
  const std::string aggregate = aggregate_type ? aggregate_type->str() : std::string();
  route.name = (aggregate_type ? aggregate : "*") + "/*";
  check_route(route);
  if (!routes_.try_emplace(Key{aggregate, ""}, std::move(route)).second) {
    throw MisuseError((aggregate_type ? "aggregate type " + quote(aggregate) : "this table") +
                      " has a listener for all other events already");
  }
  return *this;
}

std::shared_ptr<Interceptor> before(std::function<void(const Event&)> hook) {
  if (!hook) throw MisuseError("the function given to before() is empty");
  return std::make_shared<Before>(std::move(hook));
}

std::shared_ptr<Interceptor> after(
    std::function<void(const Event&, const std::exception_ptr&)> hook) {
  if (!hook) throw MisuseError("the function given to after() is empty");
  return std::make_shared<After>(std::move(hook));
}

Outcome internal::outcome_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RetryAfterError& e) {
    return Outcome::failed(e.what(), e.delay());
  } catch (const UnavailableError& e) {
    return Outcome::unavailable(e.what());
  } catch (const PermanentError& e) {
    return Outcome::permanent(e.what());
  } catch (const std::exception& e) {
    return Outcome::failed(e.what());
  } catch (...) {
    return Outcome::failed("the listener threw something that is not a std::exception");
  }
}

}  // namespace outbox
