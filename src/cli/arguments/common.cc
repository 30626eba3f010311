#include "cli/arguments/common.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/quote.h"
#include "cli/arguments/values.h"
#include "cli/doctor/backend.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

constexpr std::array kStatuses{Status::pending, Status::done, Status::retry, Status::dead};

std::optional<Status> parse_status(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  for (const Status status : kStatuses) {
    if (to_string(status) == text) return status;
  }
  return std::nullopt;
}

// "NEW,RETRY" and repeated options mean the same.
std::vector<Status> parse_statuses(const std::vector<std::string>& texts) {
  std::vector<Status> statuses;
  for (const std::string& text : texts) {
    std::size_t begin = 0;
    while (begin <= text.size()) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      const auto status = parse_status(word);
      if (!status) {
        throw UsageError("--status: " + quote(word) +
                         " is no state of an event; there are NEW, RETRY, DONE and DEAD");
      }
      statuses.push_back(*status);
      begin = end + 1;
    }
  }
  return statuses;
}

}  // namespace

void add_store_options(CLI::App& command, StoreOptions& options) {
  command
      .add_option("--db", options.db,
                  "sqlite:PATH, a path, postgresql://... or mysql://... (default: $OUTBOX_DB)")
      ->envname("OUTBOX_DB")
      ->type_name("URL")
      ->group("Store");
  command.add_option("--table", options.table, "The table of events (default: outbox_event)")
      ->type_name("NAME")
      ->group("Store");
  command.add_flag("--json", options.json, "One JSON object per line")->group("Output");
}

std::unique_ptr<Backend> find_backend(const StoreOptions& options) {
  if (options.db.empty()) {
    throw UsageError("which database? Say --db URL, or set OUTBOX_DB; this binary knows " +
                     known_urls());
  }
  return find_backend(options.db, options.table);
}

std::shared_ptr<Store> open_store(const StoreOptions& options) {
  return find_backend(options)->open();
}

void add_filter_options(CLI::App& command, FilterOptions& options, FilterTime time) {
  const bool any_status = time == FilterTime::occurred;
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type)->group("Which events");
  };
  if (any_status) {
    add_repeated(command, "--status", options.status, "NEW, RETRY, DONE or DEAD; also NEW,RETRY")
        ->type_name("STATUS")
        ->group("Which events");
  }
  add("--type", options.type, "TYPE", "Of this event type");
  add("--aggregate-type", options.aggregate_type, "TYPE", "Of this aggregate type");
  add("--aggregate-id", options.aggregate_id, "ID", "Of this aggregate");
  add("--tenant", options.tenant, "ID", "Of this tenant");
  add("--error", options.error, "TEXT", "With this text in the last error");
  add("--since", options.since, "TIME",
      any_status ? "Occurred at this time or later; 2h means two hours ago"
                 : "Died at this time or later; 2h means two hours ago");
  add("--until", options.until, "TIME",
      any_status ? "Occurred before this time" : "Died before this time");
}

EventFilter to_filter(const FilterOptions& options, FilterTime time, Time now) {
  EventFilter filter{.status = parse_statuses(options.status),
                     .type = options.type,
                     .aggregate_type = options.aggregate_type,
                     .aggregate_id = options.aggregate_id,
                     .tenant_id = options.tenant,
                     .error_contains = options.error};
  TimeRange range;
  if (!options.since.empty()) range.from = past_time("--since", options.since, now);
  if (!options.until.empty()) range.until = past_time("--until", options.until, now);
  if (range.from && range.until && *range.from >= *range.until) {
    throw UsageError("--since " + options.since + " is not before --until " + options.until);
  }
  (time == FilterTime::occurred ? filter.occurred : filter.finished) = range;
  return filter;
}

std::string describe(const FilterOptions& options) {
  std::string text;
  const auto add = [&](const char* word, const std::string& value) {
    if (value.empty()) return;
    if (!text.empty()) text += ", ";
    text += std::string(word) + " " + quote(value);
  };
  add("type", options.type);
  add("aggregate type", options.aggregate_type);
  add("aggregate", options.aggregate_id);
  add("tenant", options.tenant);
  add("error", options.error);
  add("since", options.since);
  add("until", options.until);
  return text;
}

void add_page_options(CLI::App& command, PageOptions& options) {
  command.add_option("--limit", options.limit, "At most this many (default: 50)")
      ->check(between(1, 1'000'000))
      ->type_name("N")
      ->group("Which events");
  command.add_option("--after", options.after, "Only rows after this SEQ, for the next page")
      ->check(between(0, INT64_MAX))
      ->type_name("SEQ")
      ->group("Which events");
}

void mention_next_page(const Console& console, const PageOptions& page,
                       const std::vector<EventRecord>& records) {
  if (records.empty() || static_cast<std::int64_t>(records.size()) < page.limit) return;
  console.say("There may be more: add --after " + std::to_string(records.back().row.ref.seq));
}

CLI::Validator between(std::int64_t least, std::int64_t most) {
  return CLI::Validator(CLI::Range(least, most)).description("");
}

CLI::Option* add_repeated(CLI::App& command, const std::string& name,
                          std::vector<std::string>& values, const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false);
}

}  // namespace outbox::cli
