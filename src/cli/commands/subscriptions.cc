// `outbox subscriptions`: the receivers of a table's events.
#include <optional>
#include <string>
#include <vector>

#include "base/quote.h"
#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

struct Options {
  StoreOptions store{};
  std::string name{};
  std::string new_name{};
  std::string begin{};
  bool yes = false;
};

struct Line {
  Subscription subscription;
  Counts counts{};
};

std::vector<Line> lines_of(Store& store) {
  std::vector<Line> lines;
  for (Subscription& one : store.admin().subscriptions()) {
    const Counts counts = store.subscription(one.name)->counts();
    lines.push_back({std::move(one), counts});
  }
  return lines;
}

void print_json(const Console& console, const std::vector<Line>& lines) {
  for (const auto& [subscription, counts] : lines) {
    console.print(JsonObject{}
                      .add("name", subscription.name)
                      .add("stopped", subscription.stopped)
                      .add("since", subscription.since)
                      .add_or_null("why", subscription.why)
                      .add("pending", counts.pending)
                      .add("pending_bytes", counts.pending_bytes)
                      .add("oldest_pending_at", counts.oldest_pending)
                      .add("dead", counts.dead));
  }
}

void print_table(const Console& console, const std::vector<Line>& lines, Time now) {
  Table table({{.title = "SUBSCRIPTION", .shrinks = true},
               {.title = "STATE"},
               {.title = "SINCE (UTC)"},
               {.title = "PENDING", .right = true},
               {.title = "BYTES", .right = true},
               {.title = "OLDEST DUE", .right = true},
               {.title = "DEAD", .right = true}});
  for (const auto& [subscription, counts] : lines) {
    table.add({subscription.name,
               {subscription.stopped ? "stopped" : "active",
                subscription.stopped ? Style::bad : Style::good},
               {short_time_text(subscription.since), Style::faint},
               grouped(counts.pending),
               grouped(counts.pending_bytes),
               counts.oldest_pending ? age_text(now - *counts.oldest_pending) : "-",
               {grouped(counts.dead), counts.dead == 0 ? Style::plain : Style::bad}});
  }
  console.print(table);
  for (const auto& [subscription, counts] : lines) {
    if (!subscription.stopped) continue;
    console.say("The subscription " + quote(subscription.name) +
                " was stopped: " + printable(subscription.why) +
                ". To let it begin again: outbox subscriptions restart");
  }
}

std::optional<Begin> begin_of(const Options& options) {
  if (options.begin.empty()) return std::nullopt;
  if (options.begin == "now") return Begin::now;
  if (options.begin == "beginning") return Begin::beginning;
  throw UsageError("--begin takes now or beginning, got " + quote(options.begin));
}

int list(const Console& console, const StoreOptions& options) {
  const auto store = open_table(options);
  print_subscriptions(console, *store, options.json);
  return kOk;
}

int tell(const Console& console, const Options& options, const char* what) {
  if (options.store.json) {
    console.print(JsonObject{}.add("name", options.name).add("did", what));
  } else {
    console.out << "The subscription " << quote(options.name) << " is " << what << ".\n";
  }
  return kOk;
}

int create(const Console& console, const Options& options) {
  const auto store = open_table(options.store);
  const bool created = store->admin().create_subscription(options.name, begin_of(options));
  return tell(console, options, created ? "created" : "there already");
}

int restart(const Console& console, const Options& options) {
  const std::optional<Begin> begin = begin_of(options);
  if (!begin) {
    throw UsageError(
        "say where it begins: --begin now, or --begin beginning for the oldest event "
        "that is still in the table");
  }
  open_table(options.store)->admin().restart_subscription(options.name, *begin);
  return tell(console, options, "active again");
}

int rename(const Console& console, const Options& options) {
  open_table(options.store)->admin().rename_subscription(options.name, options.new_name);
  return tell(console, options, "renamed");
}

int drop(const Console& console, const Options& options) {
  const auto store = open_table(options.store);
  const Counts counts = store->subscription(options.name)->counts();
  const std::string question = "Really drop the subscription " + quote(options.name) + " with " +
                               grouped(counts.pending) + " pending and " + grouped(counts.dead) +
                               " dead events?";
  if (!console.confirm(question, options.yes)) {
    console.say("Nothing was changed.");
    return kFailed;
  }
  store->admin().drop_subscription(options.name);
  return tell(console, options, "dropped");
}

CLI::App& add_change(CLI::App& group, Session& session, const std::shared_ptr<Options>& options,
                     const char* name, const char* about, const char* footer,
                     int (*run)(const Console&, const Options&)) {
  CLI::App& command = *group.add_subcommand(name, about)->footer(footer);
  command.add_option("NAME", options->name, "The subscription")->type_name("")->required();
  add_store_options(command, options->store);
  on_chosen(command, session, options, run);
  return command;
}

void add_begin(CLI::App& command, Options& options) {
  command
      .add_option("--begin", options.begin,
                  "now, or beginning: with the oldest event that is still in the table")
      ->type_name("WHERE");
}

}  // namespace

void print_subscriptions(const Console& console, Store& store, bool json) {
  const std::vector<Line> lines = lines_of(store);
  if (json) {
    print_json(console, lines);
  } else {
    print_table(console, lines, store.clock().now());
  }
}

void add_subscriptions(CLI::App& app, Session& session) {
  CLI::App& group =
      *app.add_subcommand("subscriptions", "List and change the receivers of the events");
  group.footer(
      "With progress by position, a table can have several receivers: each gets every event, and\n"
      "has its own progress, dead events and pace. What one has not received is never purged.\n"
      "\n"
      "Examples:\n"
      "  outbox subscriptions list --db postgresql://shop@db.example/shop\n"
      "  outbox subscriptions create billing --begin now\n"
      "  outbox subscriptions drop billing");
  add_store_command(group, session, "list", "List the subscriptions, and how far they are",
                    "Examples:\n"
                    "  outbox subscriptions list --db postgresql://shop@db.example/shop\n"
                    "  outbox subscriptions list --json | jq 'select(.pending > 1000)'",
                    list);
  const auto options = [] { return std::make_shared<Options>(); };
  auto chosen = options();
  add_begin(add_change(group, session, chosen, "create", "Add a subscription",
                       "The first one of a table that has delivered nothing yet begins at the\n"
                       "beginning; any other needs --begin.\n"
                       "\n"
                       "Examples:\n"
                       "  outbox subscriptions create billing --begin now",
                       create),
            *chosen);
  chosen = options();
  add_begin(add_change(group, session, chosen, "restart", "Let a stopped subscription begin again",
                       "Examples:\n"
                       "  outbox subscriptions restart billing --begin beginning",
                       restart),
            *chosen);
  chosen = options();
  add_change(group, session, chosen, "rename", "Give a subscription another name",
             "Its progress and its dead events go on under the new name. Not while a program\n"
             "serves it.\n"
             "\n"
             "Examples:\n"
             "  outbox subscriptions rename billing invoices",
             rename)
      .add_option("NEW_NAME", chosen->new_name, "Its name from now on")
      ->type_name("")
      ->required();
  chosen = options();
  add_change(group, session, chosen, "drop", "Forget a subscription and its dead events",
             "A program that serves it stops delivering. Asks for confirmation unless --yes is\n"
             "given.\n"
             "\n"
             "Examples:\n"
             "  outbox subscriptions drop billing",
             drop)
      .add_flag("--yes,-y", chosen->yes, "Do not ask for confirmation");
}

}  // namespace outbox::cli
