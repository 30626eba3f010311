// `list` and `show`, the same for all events and for the dead ones.
#include <string>

#include "base/quote.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "cli/output/event_view.h"

namespace outbox::cli {
namespace {

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
      store->list(filter, options.page.after, static_cast<std::size_t>(options.page.limit));
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
  const auto record = store->find(options.id);
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

}  // namespace

void add_list(CLI::App& group, Session& session, FilterTime time, const char* about,
              const char* footer) {
  CLI::App& command = *group.add_subcommand("list", about)->footer(footer);
  const auto options = std::make_shared<ListOptions>();
  add_filter_options(command, options->filter, time);
  add_page_options(command, options->page);
  add_store_options(command, options->store);
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
  on_chosen(command, session, options, [time](const Console& console, const ShowOptions& chosen) {
    return show(console, chosen, time);
  });
}

std::string why_not_dead(Store& store, const std::string& id) {
  const auto record = store.find(id);
  if (!record) return "there is no event " + quote(id);
  return "the event " + quote(id) + " is " + std::string(to_string(record->row.status)) +
         ", not DEAD";
}

}  // namespace outbox::cli
