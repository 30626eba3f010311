// `outbox status`: what waits, what died, who delivers.
#include <string>

#include "base/quote.h"
#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "cli/output/event_view.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

constexpr std::size_t kMostHeld = 20;

// The stores count that far.
constexpr std::int64_t kMostCounted = 1'000;

struct Picture {
  std::string store{};
  Time now{};
  Counts counts{};
  std::vector<Member> members{};
  std::vector<HeldAggregate> held{};
  bool more_held = false;
};

Picture look(Store& store) {
  Picture picture{.store = store.description(),
                  .now = store.clock().now(),
                  .counts = store.counts(),
                  .members = store.admin().members(),
                  .held = store.admin().held_aggregates(kMostHeld + 1)};
  if (picture.held.size() > kMostHeld) {
    picture.held.resize(kMostHeld, HeldAggregate{});
    picture.more_held = true;
  }
  return picture;
}

// "0-7, 12", or "-".
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[first]);
    if (i > first) text += "-" + std::to_string(numbers[i]);
  }
  return text.empty() ? "-" : text;
}

JsonObject to_json(const Picture& picture) {
  const Counts& counts = picture.counts;
  std::optional<std::int64_t> age_ms;
  if (counts.oldest_pending) {
    age_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(picture.now - *counts.oldest_pending)
            .count();
  }
  std::vector<JsonObject> members;
  for (const Member& member : picture.members) {
    members.push_back(JsonObject{}
                          .add("name", member.name)
                          .add("host", member.host)
                          .add("pid", member.pid)
                          .add("alive", member.alive)
                          .add("registered_at", member.registered_at)
                          .add("epoch", member.epoch)
                          .add("shards", member.shards));
  }
  std::vector<JsonObject> held;
  for (const HeldAggregate& aggregate : picture.held) {
    held.push_back(JsonObject{}
                       .add("aggregate_type", aggregate.aggregate_type)
                       .add("aggregate_id", aggregate.aggregate_id)
                       .add("head_id", aggregate.head_id)
                       .add("head_status", to_string(aggregate.head_status))
                       .add("attempts", aggregate.attempts)
                       .add("waiting", aggregate.waiting)
                       .add_or_null("last_error", aggregate.last_error));
  }
  return JsonObject{}
      .add("store", picture.store)
      .add("pending", counts.pending)
      .add("retrying", counts.retry)
      .add("delayed", counts.delayed)
      .add("held", counts.held)
      .add("pending_bytes", counts.pending_bytes)
      .add("dead", counts.dead)
      .add("broken", counts.broken)
      .add("oldest_pending_at", counts.oldest_pending)
      .add("oldest_pending_age_ms", age_ms)
      .add("instances", members)
      .add("held_aggregates", held)
      .add("more_held_aggregates", picture.more_held);
}

void print_counts(const Console& console, const Picture& picture) {
  const Counts& counts = picture.counts;
  const auto line = [&](const char* name, std::int64_t n, const char* note, Style style) {
    console.out << pad(name, 12)
                << console.paint(pad_left(grouped(n), 9), n == 0 ? Style::plain : style)
                << (*note == '\0' ? "" : "  ") << console.paint(note, Style::faint) << '\n';
  };
  line("pending", counts.pending, "NEW and RETRY; of these:", Style::bold);
  line("  retrying", counts.retry, "failed before", Style::warning);
  line("  delayed", counts.delayed, "not due yet", Style::plain);
  line("  held", counts.held, "wait behind a failing event of their aggregate", Style::warning);
  line("dead", counts.dead, counts.dead == 0 ? "" : "see: outbox dead groups", Style::bad);
  if (counts.broken > 0) {
    line("broken", counts.broken, "contradict themselves, see: outbox doctor", Style::bad);
  }
  console.out
      << "oldest due  "
      << pad_left(counts.oldest_pending ? age_text(picture.now - *counts.oldest_pending) : "-", 9)
      << "  "
      << console.paint(counts.oldest_pending ? "has been waiting for this long" : "nothing is due",
                       Style::faint)
      << '\n';
}

void print_members(const Console& console, const Picture& picture) {
  console.out << '\n';
  if (picture.members.empty()) {
    console.out << "No instance delivers these events.\n";
    return;
  }
  Table table({{.title = "INSTANCE", .shrinks = true},
               {.title = "STATE"},
               {.title = "HOST", .shrinks = true},
               {.title = "PID", .right = true},
               {.title = "SINCE (UTC)"},
               {.title = "EPOCH", .right = true},
               {.title = "SHARDS"}});
  for (const Member& member : picture.members) {
    table.add({member.name,
               {member.alive ? "alive" : "gone", member.alive ? Style::good : Style::faint},
               member.host,
               std::to_string(member.pid),
               {short_time_text(member.registered_at), Style::faint},
               std::to_string(member.epoch),
               ranges(member.shards)});
  }
  console.print(table);
}

void print_held(const Console& console, const Picture& picture) {
  if (picture.held.empty()) return;
  console.out << '\n';
  Table table({{.title = "HELD AGGREGATE", .shrinks = true},
               {.title = "WAITING", .right = true},
               {.title = "BEHIND"},
               {.title = "STATUS"},
               {.title = "TRIES", .right = true},
               {.title = "LAST ERROR", .shrinks = true}});
  for (const HeldAggregate& aggregate : picture.held) {
    table.add({aggregate.aggregate_type + "/" + aggregate.aggregate_id,
               grouped(aggregate.waiting) + (aggregate.waiting >= kMostCounted ? "+" : ""),
               aggregate.head_id,
               {std::string(to_string(aggregate.head_status)), style_of(aggregate.head_status)},
               std::to_string(aggregate.attempts),
               aggregate.last_error});
  }
  console.print(table);
  if (picture.more_held) console.out << "... and more aggregates.\n";
}

int status(const Console& console, const StoreOptions& options) {
  if (options.subscription.empty()) {
    const auto table = open_table(options);
    if (table->capabilities().subscriptions && table->admin().subscriptions().size() > 1) {
      print_subscriptions(console, *table, options.json);
      console.say("For one of them: outbox status --subscription NAME");
      return kOk;
    }
  }
  const auto store = open_store(options);
  const Picture picture = look(*store);
  if (options.json) {
    console.print(to_json(picture));
    return kOk;
  }
  console.out << console.paint(printable(picture.store), Style::bold) << "\n\n";
  print_counts(console, picture);
  print_members(console, picture);
  print_held(console, picture);
  return kOk;
}

}  // namespace

void add_status(CLI::App& app, Session& session) {
  add_store_command(
      app, session, "status", "Show pending, dead and held events, and who delivers",
      "The exit code is 0 whatever the figures are; outbox doctor checks them. A table\n"
      "with several subscriptions is shown with a line for each.\n"
      "\n"
      "Examples:\n"
      "  outbox status --db sqlite:shop.db\n"
      "  outbox status --db postgresql://shop@db.example/shop\n"
      "  outbox status --db sqlite:shop.db --json | jq .pending",
      status, true);
}

}  // namespace outbox::cli
