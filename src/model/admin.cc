#include "outbox/admin/admin.h"

#include <string>

#include "outbox/error.h"

namespace outbox {
namespace {

// `what` completes "does not support ...".
[[noreturn]] void refuse(const std::string& what, const std::string& call) {
  throw MisuseError("this store does not support " + what +
                    ": it does not implement Admin::" + call + "()");
}

}  // namespace

std::optional<EventRecord> Admin::find(std::string_view /*event_id*/) {
  refuse("finding an event", "find");
}

std::vector<EventRecord> Admin::list(const EventFilter& /*filter*/, Seq /*after*/,
                                     std::size_t /*limit*/) {
  refuse("listing events", "list");
}

std::int64_t Admin::count(const EventFilter& /*filter*/) { refuse("counting events", "count"); }

std::vector<DeadGroup> Admin::dead_groups(const EventFilter& /*filter*/, std::size_t /*limit*/) {
  refuse("grouping dead events", "dead_groups");
}

std::vector<HeldAggregate> Admin::held_aggregates(std::size_t /*limit*/) {
  refuse("listing held aggregates", "held_aggregates");
}

std::vector<Member> Admin::members() { refuse("listing its instances", "members"); }

bool Admin::replay(std::string_view /*event_id*/) { refuse("replaying events", "replay"); }

bool Admin::discard(std::string_view /*event_id*/) { refuse("discarding events", "discard"); }

Changed Admin::replay(const EventFilter& /*filter*/, Seq /*after*/, std::size_t /*limit*/) {
  refuse("replaying events", "replay");
}

Changed Admin::discard(const EventFilter& /*filter*/, Seq /*after*/, std::size_t /*limit*/) {
  refuse("discarding events", "discard");
}

Changed Admin::purge(Purgeable /*what*/, Time /*before*/, Seq /*after*/, std::size_t /*limit*/,
                     bool /*archive*/) {
  refuse("purging events", "purge");
}

std::int64_t Admin::count_purgeable(Purgeable /*what*/, Time /*before*/) {
  refuse("counting events to purge", "count_purgeable");
}

std::vector<Subscription> Admin::subscriptions() { refuse("subscriptions", "subscriptions"); }

bool Admin::create_subscription(std::string_view /*name*/, std::optional<Begin> /*begin*/) {
  refuse("subscriptions", "create_subscription");
}

void Admin::restart_subscription(std::string_view /*name*/, Begin /*begin*/) {
  refuse("subscriptions", "restart_subscription");
}

void Admin::rename_subscription(std::string_view /*from*/, std::string_view /*to*/) {
  refuse("subscriptions", "rename_subscription");
}

void Admin::drop_subscription(std::string_view /*name*/) {
  refuse("subscriptions", "drop_subscription");
}

std::vector<std::string> Admin::stop_lagging_subscriptions(Time /*before*/) {
  refuse("subscriptions", "stop_lagging_subscriptions");
}

}  // namespace outbox
