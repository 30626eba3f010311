#include "store/postgres/subscriptions.h"

#include <algorithm>
#include <cctype>
#include <type_traits>

#include "base/quote.h"
#include "base/time_text.h"
#include "outbox/error.h"
#include "store/postgres/connection.h"
#include "store/postgres/subscription_sql.h"

namespace outbox::postgres {
namespace {

// Between the two transactions that create it.
constexpr std::string_view kInterrupted = "its creation was interrupted";

constexpr std::size_t kLongestName = 100;

void check_name(std::string_view name) {
  const bool known = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
  if (known && !name.empty() && name.size() <= kLongestName) return;
  throw MisuseError("a subscription's name has 1 to " + std::to_string(kLongestName) +
                    " letters, digits, `_`, `-` and `.`, got " + quote(name));
}

auto is_named(std::string_view name) {
  return [name](const Subscription& one) { return one.name == name; };
}

}  // namespace

void Subscriptions::check_supported() const {
  const StoreConfig& config = config_of(database_);
  if (config.naming.progress == Progress::position) return;
  throw MisuseError("the " + config.description +
                    " has no subscriptions: its progress stands in its rows, so it has one "
                    "receiver; several need progress by position");
}

std::vector<Subscription> Subscriptions::list() {
  check_supported();
  const Result found = database_.run(sql::kSubscriptions);
  std::vector<Subscription> all;
  all.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    all.push_back({.name = std::string(found.text(row, 0)),
                   .stopped = found.integer(row, 2) != 0,
                   .since = found.time(row, 1),
                   .why = std::string(found.text(row, 3))});
  }
  return all;
}

// In a transaction, after the changes of others.
template <class Change>
auto Subscriptions::change(const Change& change) {
  check_supported();
  Session& session = database_.session();
  session.run_script("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE", "change subscriptions");
  try {
    database_.run(sql::kTurn);
    if constexpr (std::is_void_v<decltype(change())>) {
      change();
      session.run_script("COMMIT", "change subscriptions");
    } else {
      auto result = change();
      session.run_script("COMMIT", "change subscriptions");
      return result;
    }
  } catch (...) {
    static_cast<void>(session.try_script("ROLLBACK"));
    throw;
  }
}

// Two transactions where it begins now: what is committed after the second one's snapshot must not
// be purged before anybody knows of the subscription.
bool Subscriptions::create(std::string_view name, std::optional<Begin> begin) {
  check_name(name);
  if (!change([&] { return hold_new(name, begin); })) return false;
  change([&] { open(name, begin.value_or(Begin::beginning)); });
  return true;
}

void Subscriptions::restart(std::string_view name, Begin begin) {
  change([&] {
    const std::vector<Subscription> known = list();
    const auto place = std::find_if(known.begin(), known.end(), is_named(name));
    if (place == known.end()) refuse_unknown(name, known);
    if (!place->stopped) {
      throw MisuseError("the subscription " + quote(name) + " (" +
                        config_of(database_).description + ") is not stopped");
    }
    check_not_served(name, "begin again");
    hold(name);
  });
  change([&] { open(name, begin); });
}

// False if it is there already.
bool Subscriptions::hold_new(std::string_view name, std::optional<Begin> begin) {
  const std::vector<Subscription> known = list();
  const auto place = std::find_if(known.begin(), known.end(), is_named(name));
  const bool first = known.size() == 1 && known.front().name == kDefaultSubscription &&
                     database_.run(sql::kEverServed).integer(0, 0) == 0;
  if (place != known.end() && !place->stopped) {
    if (first) database_.run(sql::kKeepDefault);
    return false;
  }
  if (place != known.end() && place->why != kInterrupted) refuse_stopped(*place);
  if (!first && !begin) {
    throw MisuseError("the subscription " + quote(name) + " is new to the table (" +
                      config_of(database_).description + "), which has " + listed(known) +
                      ": say where it begins, now or at the beginning");
  }
  check_not_served(name, "begin again");
  if (first) database_.run(sql::kDropSubscription, kDefaultSubscription);
  hold(name);
  return true;
}

void Subscriptions::hold(std::string_view name) {
  database_.run(sql::kHoldForSubscription, name, kInterrupted);
}

void Subscriptions::open(std::string_view name, Begin begin) {
  const std::vector<Subscription> known = list();
  const auto place = std::find_if(known.begin(), known.end(), is_named(name));
  if (place == known.end() || !place->stopped) return;  // somebody else was quicker
  if (begin == Begin::now) database_.run(sql::kBeginNow, name);
  database_.run(sql::kServeSubscription, name);
}

void Subscriptions::rename(std::string_view from, std::string_view to) {
  check_name(to);
  change([&] {
    const std::vector<Subscription> known = list();
    if (std::none_of(known.begin(), known.end(), is_named(from))) refuse_unknown(from, known);
    if (std::any_of(known.begin(), known.end(), is_named(to))) {
      throw MisuseError("there is a subscription " + quote(to) + " already (" +
                        config_of(database_).description + ")");
    }
    database_.run(sql::kLockSubscription, from);
    check_not_served(from, "be renamed");
    database_.run(sql::kRenameSubscription, from, to);
  });
}

void Subscriptions::drop(std::string_view name) {
  change([&] {
    const std::vector<Subscription> known = list();
    if (std::none_of(known.begin(), known.end(), is_named(name))) refuse_unknown(name, known);
    if (known.size() == 1) {
      throw MisuseError(
          "the subscription " + quote(name) + " is the only one of the table (" +
          config_of(database_).description +
          "), whose events would be nobody's: create another one first, or rename it");
    }
    database_.run(sql::kLockSubscription, name);
    database_.run(sql::kLockInstances, name);
    database_.run(sql::kDropSubscription, name);
  });
}

std::vector<std::string> Subscriptions::stop_lagging(Time before) {
  check_supported();
  if (database_.run(sql::kLagging, before).rows() == 0) return {};
  return change([&] {
    std::vector<std::string> stopped;
    const Result lagging = database_.run(sql::kLagging, before);
    for (int row = 0; row < lagging.rows(); ++row) {
      const std::string name(lagging.text(row, 0));
      database_.run(sql::kLockSubscription, name);
      database_.run(sql::kLockInstances, name);
      database_.run(sql::kStopSubscription, name,
                    "an event of " + time_text(lagging.time(row, 1)) +
                        " was still pending, beyond the limit for lag");
      stopped.push_back(name);
    }
    return stopped;
  });
}

void Subscriptions::require(std::string_view name) {
  const std::vector<Subscription> known = list();
  if (std::none_of(known.begin(), known.end(), is_named(name))) refuse_unknown(name, known);
}

void Subscriptions::refuse_to_serve() {
  const StoreConfig& config = config_of(database_);
  const std::string& name = config.naming.subscription;
  const std::vector<Subscription> known = list();
  const auto place = std::find_if(known.begin(), known.end(), is_named(name));
  if (place != known.end()) refuse_stopped(*place);
  throw PermanentError("the subscription " + quote(name) + " (" + config.description +
                       ") does not exist any more; the table has " + listed(known));
}

void Subscriptions::refuse_stopped(const Subscription& stopped) const {
  throw PermanentError("the subscription " + quote(stopped.name) + " (" +
                       config_of(database_).description + ") was stopped: " + stopped.why +
                       "; `outbox subscriptions restart` lets it begin again");
}

// Two would deliver the same events at a time, and each in its own order.
void Subscriptions::check_not_served(std::string_view name, const std::string& what) {
  const Result serving = database_.run(sql::kServing, name);
  if (serving.rows() == 0) return;
  throw MisuseError("the subscription " + quote(name) + " (" + config_of(database_).description +
                    ") cannot " + what + " while " + quote(serving.text(0, 0)) + " (process " +
                    std::to_string(serving.integer(0, 2)) + " on " +
                    std::string(serving.text(0, 1)) +
                    ") may deliver its events: stop it, or wait until its lease has expired");
}

std::string Subscriptions::listed(const std::vector<Subscription>& known) const {
  std::string text;
  for (const Subscription& one : known)
    text.append(text.empty() ? "" : ", ").append(quote(one.name));
  return text.empty() ? "none" : text;
}

void Subscriptions::refuse_unknown(std::string_view name,
                                   const std::vector<Subscription>& known) const {
  throw MisuseError("there is no subscription " + quote(name) + " (" +
                    config_of(database_).description + "); the table has " + listed(known));
}

}  // namespace outbox::postgres
