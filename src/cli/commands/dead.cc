// `outbox dead`: events that were given up.
#include <string>

#include "base/quote.h"
#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "cli/output/event_view.h"
#include "cli/output/text.h"
#include "outbox/admin/dead_events.h"

namespace outbox::cli {
namespace {

// --- groups ---

struct GroupsOptions {
  StoreOptions store{};
  FilterOptions filter{};
  std::int64_t limit = 50;
};

int groups(const Console& console, const GroupsOptions& options) {
  const auto store = open_store(options.store);
  const EventFilter filter = to_filter(options.filter, FilterTime::died, store->clock().now());
  const auto found = DeadEvents(store).groups(filter, static_cast<std::size_t>(options.limit));
  if (options.store.json) {
    for (const DeadGroup& group : found) {
      console.print(JsonObject{}
                        .add("count", group.count)
                        .add("aggregate_type", group.aggregate_type)
                        .add("type", group.type)
                        .add("error", group.error)
                        .add("first_died_at", group.first)
                        .add("last_died_at", group.last)
                        .add("example_id", group.example_id));
    }
    return kOk;
  }
  if (found.empty()) {
    console.say("No dead events match.");
    return kOk;
  }
  Table table({{.title = "COUNT", .right = true},
               {.title = "AGGREGATE TYPE", .shrinks = true},
               {.title = "TYPE", .shrinks = true},
               {.title = "ERROR", .shrinks = true},
               {.title = "FIRST DIED (UTC)"},
               {.title = "LAST DIED (UTC)"},
               {.title = "EXAMPLE"}});
  for (const DeadGroup& group : found) {
    table.add({{grouped(group.count), Style::bad},
               group.aggregate_type,
               group.type,
               group.error,
               {short_time_text(group.first), Style::faint},
               {short_time_text(group.last), Style::faint},
               group.example_id});
  }
  console.print(table);
  return kOk;
}

void add_groups(CLI::App& group, Session& session) {
  CLI::App& command =
      *group.add_subcommand("groups", "Count dead events by error, largest group first");
  const auto options = std::make_shared<GroupsOptions>();
  add_filter_options(command, options->filter, FilterTime::died);
  command.add_option("--limit", options->limit, "At most N groups (default: 50)")
      ->check(between(1, 1'000'000))
      ->type_name("N")
      ->group("Filters");
  add_store_options(command, options->store);
  add_subscription_option(command, options->store);
  command.footer(
      "Start here: it tells one broken receiver from a hundred broken events.\n"
      "\n"
      "Examples:\n"
      "  outbox dead groups --db sqlite:shop.db\n"
      "  outbox dead groups --db sqlite:shop.db --since 6h --json");
  on_chosen(command, session, options, groups);
}

// --- replay and discard ---

struct ChangeOptions {
  StoreOptions store{};
  FilterOptions filter{};
  std::vector<std::string> ids{};
  bool all = false;
  double rate = 0;
  std::int64_t limit = 0;
  bool yes = false;
};

// The two differ in words and in what they call.
struct Change {
  const char* verb;   // "replay"
  const char* doing;  // "replaying"
  const char* done;   // "replayed"
  const char* warning;
  bool ask_for_ids;
  bool (DeadEvents::*one)(std::string_view);
  std::int64_t (DeadEvents::*many)(EventFilter, const BulkOptions&);
};

constexpr Change kReplay{.verb = "replay",
                         .doing = "replaying",
                         .done = "replayed",
                         .warning = "They will be delivered again.",
                         .ask_for_ids = false,
                         .one = &DeadEvents::replay,
                         .many = &DeadEvents::replay_all};
constexpr Change kDiscard{.verb = "discard",
                          .doing = "discarding",
                          .done = "discarded",
                          .warning = "They are deleted for good.",
                          .ask_for_ids = true,
                          .one = &DeadEvents::discard,
                          .many = &DeadEvents::discard_all};

void check(const ChangeOptions& options, const Change& change) {
  if (options.all == !options.ids.empty()) {
    throw UsageError(options.all ? "ids and --all cannot be combined: give one of the two"
                                 : std::string("which events? Give their ids; or --all, with or "
                                               "without filters, to ") +
                                       change.verb + " all dead events that match");
  }
  if (!options.all && !describe(options.filter).empty()) {
    throw UsageError("filters need --all; they cannot be combined with ids");
  }
  if (!options.all && (options.rate > 0 || options.limit > 0)) {
    throw UsageError("--rate and --limit need --all; they cannot be combined with ids");
  }
}

void report(const Console& console, const ChangeOptions& options, const Change& change,
            std::int64_t changed) {
  if (options.store.json) {
    console.print(JsonObject{}.add(change.done, changed));
  } else {
    console.out << change.done << " " << counted(changed, "event") << '\n';
  }
}

int change_ids(const Console& console, const ChangeOptions& options, const Change& change,
               const std::shared_ptr<Store>& store) {
  const auto n = static_cast<std::int64_t>(options.ids.size());
  if (change.ask_for_ids) {
    const std::string question = std::string("Really ") + change.verb + " " +
                                 (n == 1 ? quote(options.ids.front()) : counted(n, "event")) +
                                 "? " + (n == 1 ? "It is deleted for good." : change.warning);
    if (!console.confirm(question, options.yes)) {
      console.say("Nothing was changed.");
      return kFailed;
    }
  }
  DeadEvents dead(store);
  std::int64_t changed = 0;
  for (const std::string& id : options.ids) {
    if ((dead.*change.one)(id)) {
      ++changed;
    } else {
      console.say("outbox: not " + std::string(change.done) + ": " + why_not_dead(*store, id));
    }
  }
  report(console, options, change, changed);
  return changed == n ? kOk : kFailed;
}

int change_all(const Console& console, const ChangeOptions& options, const Change& change,
               const std::shared_ptr<Store>& store) {
  const EventFilter filter = to_filter(options.filter, FilterTime::died, store->clock().now());
  DeadEvents dead(store);
  std::int64_t total = dead.count(filter);
  if (options.limit > 0) total = std::min(total, options.limit);
  if (total > 0) {
    const std::string which = describe(options.filter);
    const std::string question = std::string("Really ") + change.verb + " " +
                                 counted(total, "dead event") +
                                 (which.empty() ? "" : " (" + which + ")") + "? " + change.warning;
    if (!console.confirm(question, options.yes)) {
      console.say("Nothing was changed.");
      return kFailed;
    }
  }
  std::int64_t changed = 0;
  if (total > 0) {
    Progress progress = console.progress(change.doing, total);
    progress.update(0);
    const BulkOptions bulk{
        .rate = options.rate, .limit = options.limit, .progress = [&](std::int64_t done) {
          progress.update(done);
          return true;
        }};
    changed = (dead.*change.many)(filter, bulk);
  }
  if (changed < total) {
    console.say("Skipped " + counted(total - changed, "event") +
                " that changed meanwhile, or died later than this host's clock says.");
  }
  report(console, options, change, changed);
  return kOk;
}

void add_change(CLI::App& group, Session& session, const Change& change, const char* about,
                const char* footer) {
  CLI::App& command = *group.add_subcommand(change.verb, about);
  const auto options = std::make_shared<ChangeOptions>();
  command.add_option("ID", options->ids, "The events' ids")->type_name("");
  command.add_flag("--all", options->all, "All dead events that match the filters, instead of ids")
      ->group("Filters");
  add_filter_options(command, options->filter, FilterTime::died);
  command.add_option("--limit", options->limit, "With --all: at most N events")
      ->check(between(1, INT64_MAX))
      ->type_name("N")
      ->group("Filters");
  command.add_option("--rate", options->rate, "With --all: at most N events per second")
      ->check(between(0.001, 1e9, "0.001 up"))
      ->type_name("N");
  command.add_flag("--yes,-y", options->yes, "Do not ask for confirmation");
  add_store_options(command, options->store);
  add_subscription_option(command, options->store);
  command.footer(footer);
  on_chosen(command, session, options,
            [&change](const Console& console, const ChangeOptions& chosen) {
              check(chosen, change);
              const auto store = open_store(chosen.store);
              return chosen.all ? change_all(console, chosen, change, store)
                                : change_ids(console, chosen, change, store);
            });
}

}  // namespace

void add_dead(CLI::App& app, Session& session) {
  CLI::App& group =
      *app.add_subcommand("dead", "List, group, replay and discard dead events (dead letters)");
  group.footer(
      "Examples:\n"
      "  outbox dead groups --db sqlite:shop.db                        what happened?\n"
      "  outbox dead replay --all --error timeout --rate 50            once the cause is fixed\n"
      "  outbox dead discard 01KA3QF8E2ZDQ7Y2V0T4C9N1XM");
  add_list(group, session, FilterTime::died, "List dead events, oldest first",
           "Examples:\n"
           "  outbox dead list --db sqlite:shop.db --since 1d\n"
           "  outbox dead list --db sqlite:shop.db --type OrderPlaced --error 'timed out'");
  add_show(group, session, FilterTime::died,
           "Show one dead event in full, with headers and payload",
           "As events show, but exit code 1 if the event is not DEAD.\n"
           "\n"
           "Examples:\n"
           "  outbox dead show 01KA3QF8E2ZDQ7Y2V0T4C9N1XM --db sqlite:shop.db");
  add_groups(group, session);
  add_change(
      group, session, kReplay, "Deliver dead events again",
      "Replayed events become NEW, with no attempt spent. A running engine delivers them, and\n"
      "keeps the order of each aggregate. --all asks for confirmation unless --yes is given. Exit\n"
      "code 1 if one of the events is not DEAD.\n"
      "\n"
      "Examples:\n"
      "  outbox dead replay 01KA3QF8E2ZDQ7Y2V0T4C9N1XM --db sqlite:shop.db\n"
      "  outbox dead replay --all --type OrderPlaced --since 6h --rate 50\n"
      "  outbox dead replay --all --error 'connection refused' --yes --json");
  add_change(
      group, session, kDiscard, "Delete dead events for good",
      "Asks for confirmation unless --yes is given. Exit code 1 if one of the events is not\n"
      "DEAD; events in any other state are never touched.\n"
      "\n"
      "Examples:\n"
      "  outbox dead discard 01KA3QF8E2ZDQ7Y2V0T4C9N1XM --db sqlite:shop.db\n"
      "  outbox dead discard --all --type Obsolete --until 30d --yes");
}

}  // namespace outbox::cli
