// `outbox purge`: removes what has been finished for long enough.
#include <optional>
#include <string>

#include "base/quote.h"
#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

constexpr const char* kNever = "never";

struct Options {
  StoreOptions store{};
  std::string done = "7d";
  std::string dead = "30d";
  std::string everything{};
  std::string max_lag{};
  bool archive = false;
  bool dry_run = false;
  bool yes = false;
  std::int64_t batch = 500;
};

// One kind of rows to be removed.
struct Part {
  Purgeable what;
  const char* key;    // in JSON
  const char* one;    // for people
  const char* label;  // likewise, of several
  std::string age;
  Time before{};
  std::int64_t rows = 0;
};

std::vector<Part> parts_of(const Options& options, Time now) {
  std::vector<Part> parts;
  const auto add = [&](Purgeable what, const char* option, const char* key, const char* one,
                       const char* label, const std::string& age) {
    if (age.empty() || age == kNever) return;
    parts.push_back({.what = what,
                     .key = key,
                     .one = one,
                     .label = label,
                     .age = age,
                     .before = now - duration_argument(option, age)});
  };
  if (!options.everything.empty()) {
    add(Purgeable::any_age, "--everything-older-than", "everything", "event in any state",
        "events in any state", options.everything);
    return parts;
  }
  add(Purgeable::done, "--done-older-than", "done", "DONE event", "DONE events", options.done);
  add(Purgeable::dead, "--dead-older-than", "dead", "DEAD event", "DEAD events", options.dead);
  return parts;
}

std::int64_t total_of(const std::vector<Part>& parts) {
  std::int64_t total = 0;
  for (const Part& part : parts) total += part.rows;
  return total;
}

// Batch by batch, so that writers get their turn in between.
void remove(const Console& console, Store& store, const Options& options,
            std::vector<Part>& parts) {
  Progress progress = console.progress("purging", total_of(parts));
  std::int64_t removed = 0;
  progress.update(removed);
  for (Part& part : parts) {
    part.rows = 0;
    Changed changed{.more = true};
    while (changed.more) {
      changed = store.admin().purge(part.what, part.before, changed.through,
                                    static_cast<std::size_t>(options.batch), options.archive);
      part.rows += changed.rows;
      removed += changed.rows;
      progress.update(removed);
    }
  }
}

void stop_lagging(const Console& console, Store& store, const Options& options) {
  if (options.max_lag.empty() || options.dry_run) return;
  const Time before = store.clock().now() - duration_argument("--max-lag", options.max_lag);
  for (const std::string& name : store.admin().stop_lagging_subscriptions(before)) {
    console.say("The subscription " + quote(name) + " is stopped: it lags more than " +
                options.max_lag + ".");
  }
}

void report(const Console& console, const Options& options, const std::vector<Part>& parts) {
  if (options.store.json) {
    JsonObject object;
    object.add("dry_run", options.dry_run).add("archive", options.archive);
    for (const Part& part : parts) object.add(part.key, part.rows);
    console.print(object.add("total", total_of(parts)));
    return;
  }
  const char* did = options.archive ? "archived" : "removed";
  for (const Part& part : parts) {
    console.out << (options.dry_run ? std::string("would be ") + did : std::string(did)) << "  "
                << pad_left(grouped(part.rows), 9) << "  " << part.label << " older than "
                << part.age << '\n';
  }
}

int purge(const Console& console, const Options& options) {
  const auto store = open_table(options.store);
  std::vector<Part> parts = parts_of(options, store->clock().now());
  if (parts.empty()) {
    throw UsageError(
        "nothing to purge: --done-older-than and --dead-older-than are both \"never\"; give one of "
        "them a duration");
  }
  stop_lagging(console, *store, options);
  for (Part& part : parts) part.rows = store->admin().count_purgeable(part.what, part.before);
  if (!options.dry_run && total_of(parts) > 0) {
    std::string which;
    for (const Part& part : parts) {
      if (part.rows == 0) continue;
      which += (which.empty() ? "" : " and ") + grouped(part.rows) + " " +
               (part.rows == 1 ? part.one : part.label) + " older than " + part.age;
    }
    const std::string question = options.archive ? "Really move " + which + " to the archive table?"
                                                 : "Really delete " + which + " for good?";
    if (!console.confirm(question, options.yes)) {
      console.say("Nothing was changed.");
      return kFailed;
    }
    remove(console, *store, options, parts);
  }
  report(console, options, parts);
  return kOk;
}

}  // namespace

void add_purge(CLI::App& app, Session& session) {
  CLI::App& command = *app.add_subcommand("purge", "Remove events that finished long ago");
  const auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, std::string& value, const char* help) {
    return command.add_option(name, value, help)->type_name("SPAN")->group("Filters");
  };
  CLI::Option* done = add("--done-older-than", options->done,
                          "DONE for at least this long (default: 7d), or never");
  CLI::Option* dead = add("--dead-older-than", options->dead,
                          "DEAD for at least this long (default: 30d), or never");
  add("--everything-older-than", options->everything, "All events this old, delivered or not")
      ->excludes(done)
      ->excludes(dead);
  command
      .add_option("--max-lag", options->max_lag,
                  "First stop subscriptions that have not finished an event this old")
      ->type_name("SPAN");
  command.add_flag("--archive", options->archive, "Move the rows to <table>_archive instead");
  command.add_option("--batch", options->batch, "Rows per transaction (default: 500)")
      ->check(between(1, 100'000))
      ->type_name("N");
  command.add_flag("--dry-run,-n", options->dry_run, "Only show how many events it would remove");
  command.add_flag("--yes,-y", options->yes, "Do not ask for confirmation");
  add_store_options(command, options->store);
  command.footer(
      "Age counts from when an event became DONE or DEAD. NEW and RETRY events are never removed,\n"
      "except by --everything-older-than, which is for append-only tables and counts from when "
      "the\n"
      "event occurred. Deletes in small transactions while applications run. Asks for "
      "confirmation\n"
      "unless --yes is given.\n"
      "\n"
      "Examples:\n"
      "  outbox purge --db sqlite:shop.db --dry-run\n"
      "  outbox purge --db sqlite:shop.db --done-older-than 1d --dead-older-than never --yes\n"
      "  outbox purge --db sqlite:shop.db --archive --yes --json");
  on_chosen(command, session, options, purge);
}

}  // namespace outbox::cli
