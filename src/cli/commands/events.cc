// `outbox events`: look at events, watch them come, write one.
#include <string>

#include "base/json.h"
#include "base/quote.h"
#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/commands/tail.h"
#include "cli/errors.h"
#include "cli/output/event_view.h"
#include "outbox/writer.h"

namespace outbox::cli {
namespace {

// --- list and show, of all events or of the dead ones ---

struct ListOptions {
  StoreOptions store{};
  FilterOptions filter{};
  PageOptions page{};
};

int list(const Console& console, const ListOptions& options, FilterTime time) {
  const bool dead = time == FilterTime::died;
  const auto store = open_store(options.store);
  const Time now = store->clock().now();
  EventFilter filter = to_filter(options.filter, time, now);
  if (dead) filter.status = {Status::dead};
  const auto records =
      store->admin().list(filter, options.page.after, static_cast<std::size_t>(options.page.limit));
  if (options.store.json) {
    for (const EventRecord& record : records)
      console.print(event_json(record, Detail::summary, now));
  } else if (records.empty()) {
    console.say(dead ? "No dead events match." : "No events match.");
  } else {
    print_events(console, records, dead ? ShownTime::finished : ShownTime::occurred);
  }
  mention_next_page(console, options.page, records);
  return kOk;
}

struct ShowOptions {
  StoreOptions store{};
  std::string id{};
};

int show(const Console& console, const ShowOptions& options, FilterTime time) {
  const bool dead = time == FilterTime::died;
  const auto store = open_store(options.store);
  const auto record = store->admin().find(options.id);
  if (!record || (dead && record->row.status != Status::dead)) {
    console.say("outbox: " + (dead ? why_not_dead(*store, options.id)
                                   : "there is no event " + quote(options.id) + " in the " +
                                         store->description()));
    return kFailed;
  }
  if (options.store.json) {
    console.print(event_json(*record, Detail::complete, store->clock().now()));
  } else {
    print_event(console, *record, store->clock().now());
  }
  return kOk;
}

// --- tail ---

struct TailCommand {
  StoreOptions store{};
  FilterOptions filter{};
  bool payload = false;
  std::optional<std::int64_t> after{};
  std::optional<double> seconds{};
};

int follow(const Console& console, const TailCommand& options) {
  const auto store = open_store(options.store);
  TailOptions tail{.filter = to_filter(options.filter, FilterTime::occurred, store->clock().now()),
                   .after = options.after};
  if (options.seconds) {
    tail.duration = std::chrono::milliseconds{static_cast<std::int64_t>(*options.seconds * 1'000)};
  }
  tail_events(*store, tail, [&](const EventRecord& record) {
    if (options.store.json) {
      console.print(event_json(record, options.payload ? Detail::payload : Detail::summary,
                               store->clock().now()));
    } else {
      console.out << event_line(record, console.color);
      if (options.payload) console.out << "  " << payload_text(record.row.event);
      console.out << '\n';
    }
    console.out.flush();
    return static_cast<bool>(console.out);
  });
  return kOk;
}

void add_tail(CLI::App& group, Session& session) {
  CLI::App& command = *group.add_subcommand("tail", "Follow new events as they are committed");
  const auto options = std::make_shared<TailCommand>();
  command.add_flag("--payload", options->payload, "Show payloads too; they may hold secrets")
      ->group("Output");
  command.add_option("--seconds", options->seconds, "Stop after N seconds (default: on Ctrl-C)")
      ->check(between(0.0, 1e6, "0 to 1,000,000"))
      ->type_name("N");
  command.add_option("--after", options->after, "Start after this SEQ (0: at the first event)")
      ->check(between(0, INT64_MAX))
      ->type_name("SEQ");
  add_filter_options(command, options->filter, FilterTime::occurred);
  add_store_options(command, options->store);
  add_subscription_option(command, options->store);
  command.footer(
      "Shows each event once, in its status at that moment; `events list` and `events show` have\n"
      "later ones. Misses events that are deleted on delivery before it sees them, and, on a\n"
      "server, events committed more than a minute after events with a greater SEQ.\n"
      "\n"
      "Examples:\n"
      "  outbox events tail --db sqlite:shop.db\n"
      "  outbox events tail --db sqlite:shop.db --type OrderPlaced --payload\n"
      "  outbox events tail --db sqlite:shop.db --after 0 --seconds 1 --json > all.jsonl");
  on_chosen(command, session, options, follow);
}

// --- publish ---

struct PublishOptions {
  StoreOptions store{};
  std::string type{};
  std::string aggregate_type{kGlobalAggregate};
  std::string aggregate_id{};
  std::string tenant{};
  std::string id{};
  std::string payload{};
  bool bytes = false;
  std::string content_type{};
  std::vector<std::string> headers{};
  std::string deliver_after{};
  std::string deliver_at{};
};

Draft to_draft(const Console& console, const PublishOptions& options) {
  Draft draft{.type = options.type,
              .aggregate_type = options.aggregate_type,
              .aggregate_id = options.aggregate_id,
              .headers = parse_headers(options.headers),
              .tenant_id = options.tenant};
  std::string data = read_payload(options.payload, console.in);
  if (const auto problem = check_json(data); problem && !options.bytes) {
    throw UsageError("--payload is not JSON: " + std::string(problem->what) + " at byte " +
                     std::to_string(problem->offset) + "; add --bytes for anything else");
  }
  if (options.bytes) {
    draft.payload = options.content_type.empty() ? bytes(std::move(data))
                                                 : bytes(std::move(data), options.content_type);
  } else {
    draft.payload = options.content_type.empty() ? json(std::move(data))
                                                 : json(std::move(data), options.content_type);
  }
  if (!options.id.empty()) draft.id = options.id;
  if (!options.deliver_at.empty()) {
    draft.deliver_at = time_argument("--deliver-at", options.deliver_at);
  }
  if (!options.deliver_after.empty()) {
    draft.deliver_after = duration_argument("--deliver-after", options.deliver_after);
  }
  return draft;
}

int publish(const Console& console, const PublishOptions& options) {
  const Draft draft = to_draft(console, options);
  try {
    make_event(draft);
  } catch (const MisuseError& error) {
    throw UsageError(error.what());
  }
  const auto store = open_table(options.store);
  if (!options.id.empty() && store->admin().find(options.id)) {
    console.say("outbox: event " + quote(options.id) + " exists already; nothing was written");
    return kFailed;
  }
  Writer writer(store);
  auto transaction = writer.begin();
  const std::string id = transaction.write(draft);
  transaction.commit();
  if (options.store.json) {
    console.print(JsonObject{}.add("id", id));
  } else {
    console.out << printable(id) << '\n';
  }
  return kOk;
}

void add_publish(CLI::App& group, Session& session) {
  CLI::App& command =
      *group.add_subcommand("publish", "Write one event, in a transaction of its own");
  const auto options = std::make_shared<PublishOptions>();
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    return command.add_option(name, value, help)->type_name(type)->group("The event");
  };
  add("--type", options->type, "TYPE", "Event type")->required();
  add("--payload", options->payload, "JSON", "JSON text, @FILE, or - for standard input")
      ->required();
  add("--aggregate-type", options->aggregate_type, "TYPE", "Aggregate type");
  add("--aggregate-id", options->aggregate_id, "ID", "Aggregate id; order is kept per aggregate");
  add("--tenant", options->tenant, "ID", "Tenant id, for the listener");
  add("--id", options->id, "ID", "Event id (default: a new ULID)");
  add_repeated(command, "--header", options->headers, "Header; may be repeated")
      ->type_name("KEY=VALUE")
      ->group("The event");
  CLI::Option* after = add("--deliver-after", options->deliver_after, "SPAN",
                           "Deliver after this much time: 90s, 15m, 2h");
  add("--deliver-at", options->deliver_at, "TIME", "Deliver at this time or later (RFC 3339)")
      ->excludes(after);
  add("--content-type", options->content_type, "TYPE",
      "Content type (default: application/json, or octet-stream)");
  command.add_flag("--bytes", options->bytes, "The payload is bytes, not JSON text")
      ->group("The event");
  add_store_options(command, options->store);
  command.footer(
      "Prints the event's id. The payload is stored byte for byte, at most 1 MiB; that includes "
      "the\n"
      "final newline of @FILE and -.\n"
      "\n"
      "Examples:\n"
      "  outbox events publish --db sqlite:shop.db --type OrderPlaced --aggregate-type Customer "
      "\\\n"
      "      --aggregate-id 42 --payload '{\"cents\":1999}' --header source=by-hand\n"
      "  jq -c . order.json | outbox events publish --type OrderPlaced --payload -\n"
      "  outbox events publish --type Reminder --payload '{}' --deliver-after 2h");
  on_chosen(command, session, options, publish);
}

}  // namespace

void add_list(CLI::App& group, Session& session, FilterTime time, const char* about,
              const char* footer) {
  CLI::App& command = *group.add_subcommand("list", about)->footer(footer);
  const auto options = std::make_shared<ListOptions>();
  add_filter_options(command, options->filter, time);
  add_page_options(command, options->page);
  add_store_options(command, options->store);
  add_subscription_option(command, options->store);
  on_chosen(command, session, options, [time](const Console& console, const ListOptions& chosen) {
    return list(console, chosen, time);
  });
}

void add_show(CLI::App& group, Session& session, FilterTime time, const char* about,
              const char* footer) {
  CLI::App& command = *group.add_subcommand("show", about)->footer(footer);
  const auto options = std::make_shared<ShowOptions>();
  command.add_option("ID", options->id, "The event's id")->required()->type_name("");
  add_store_options(command, options->store);
  add_subscription_option(command, options->store);
  on_chosen(command, session, options, [time](const Console& console, const ShowOptions& chosen) {
    return show(console, chosen, time);
  });
}

std::string why_not_dead(Store& store, const std::string& id) {
  const auto record = store.admin().find(id);
  if (!record) return "there is no event " + quote(id);
  return "the event " + quote(id) + " is " + std::string(to_string(record->row.status)) +
         ", not DEAD";
}

void add_events(CLI::App& app, Session& session) {
  CLI::App& group = *app.add_subcommand("events", "List, show, follow and publish events");
  group.footer(
      "Examples:\n"
      "  outbox events list --db sqlite:shop.db --status RETRY\n"
      "  outbox events tail --db sqlite:shop.db --type OrderPlaced\n"
      "  outbox events publish --db sqlite:shop.db --type Ping --payload '{}'");
  add_list(group, session, FilterTime::occurred, "List events, oldest first, a page at a time",
           "An event must match all filters. --since and --until take RFC 3339 "
           "(2026-03-01T12:00:00Z), a\n"
           "day, or a duration back from now (90s, 15m, 2h, 7d). `events show` has payload and "
           "headers.\n"
           "\n"
           "Examples:\n"
           "  outbox events list --db sqlite:shop.db --status NEW,RETRY\n"
           "  outbox events list --db sqlite:shop.db --aggregate-type Customer --aggregate-id 42\n"
           "  outbox events list --db sqlite:shop.db --since 2h --limit 1000 --json | jq -r .id");
  add_show(group, session, FilterTime::occurred, "Show one event in full, with headers and payload",
           "With --json, `payload` is the exact JSON text as a string; a payload of bytes is\n"
           "`payload_base64` instead. Exit code 1 if there is no such event.\n"
           "\n"
           "Examples:\n"
           "  outbox events show 01KA3QF8E2ZDQ7Y2V0T4C9N1XM --db sqlite:shop.db\n"
           "  outbox events show 01KA3QF8E2ZDQ7Y2V0T4C9N1XM --json | jq '.payload | fromjson'");
  add_tail(group, session);
  add_publish(group, session);
}

}  // namespace outbox::cli
