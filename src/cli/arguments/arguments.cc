#include "cli/arguments/arguments.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/quote.h"
#include "base/time_text.h"
#include "cli/errors.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

using std::chrono::microseconds;

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
                         " is not a status; write NEW, RETRY, DONE or DEAD");
      }
      statuses.push_back(*status);
      begin = end + 1;
    }
  }
  return statuses;
}

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kHour = 3'600;  // in seconds
constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kLongest = std::int64_t{1'000} * 366 * kDay * kSecond;

struct Unit {
  std::string_view name;
  std::int64_t micros;
};
constexpr std::array kUnits{Unit{"ms", 1'000},        Unit{"s", kSecond},
                            Unit{"m", 60 * kSecond},  Unit{"h", kHour* kSecond},
                            Unit{"d", kDay* kSecond}, Unit{"w", 7 * kDay* kSecond}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Cuts the letters off the text.
std::string_view take_letters(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && !is_digit(text[end])) ++end;
  const std::string_view letters = text.substr(0, end);
  text.remove_prefix(end);
  return letters;
}

std::string read_all(std::istream& in, const std::string& name) {
  // One byte more than allowed tells that there is more.
  std::string data(kMaxPayloadBytes + 1, '\0');
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  data.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw UsageError("--payload: cannot read " + name);
  if (data.size() > kMaxPayloadBytes) {
    throw UsageError("--payload: " + name + " holds more than " + std::to_string(kMaxPayloadBytes) +
                     " bytes, the most that an event may carry");
  }
  return data;
}

CLI::Validator checked_by(CLI::Validator validator, const std::string& wanted) {
  return CLI::Validator(
      [validator = std::move(validator), wanted](std::string& text) -> std::string {
        return validator(text).empty() ? "" : quote(text) + " is not " + wanted;
      },
      "");
}

}  // namespace

void add_store_options(CLI::App& command, StoreOptions& options) {
  command
      .add_option("--db", options.db,
                  "sqlite:PATH, postgresql://..., mysql://... (default: $OUTBOX_DB)")
      ->envname("OUTBOX_DB")
      ->type_name("URL")
      ->group("Store");
  command.add_option("--table", options.table, "Table of events (default: outbox_event)")
      ->type_name("NAME")
      ->group("Store");
  command.add_flag("--json", options.json, "One JSON object per line")->group("Output");
}

void add_subscription_option(CLI::App& command, StoreOptions& options) {
  command
      .add_option("--subscription", options.subscription,
                  "Receiver of the events, if the table has several (default: default)")
      ->type_name("NAME")
      ->group("Store");
}

std::unique_ptr<Backend> find_backend(const StoreOptions& options) {
  if (options.db.empty()) {
    throw UsageError("no database given: use --db URL, or set OUTBOX_DB; supported are " +
                     known_urls());
  }
  return find_backend(options.db, options.table);
}

std::shared_ptr<Store> open_table(const StoreOptions& options) {
  return find_backend(options)->open();
}

std::shared_ptr<Store> open_store(const StoreOptions& options) {
  auto store = open_table(options);
  std::string name = options.subscription;
  if (name.empty()) {
    if (!store->capabilities().subscriptions) return store;
    const std::vector<Subscription> all = store->admin().subscriptions();
    name = all.size() == 1 ? all.front().name : std::string(kDefaultSubscription);
  }
  return store->subscription(name);
}

void add_filter_options(CLI::App& command, FilterOptions& options, FilterTime time) {
  const bool any_status = time == FilterTime::occurred;
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type)->group("Filters");
  };
  if (any_status) {
    add_repeated(command, "--status", options.status,
                 "NEW, RETRY, DONE or DEAD; or several: NEW,RETRY")
        ->type_name("STATUS")
        ->group("Filters");
  }
  add("--type", options.type, "TYPE", "Event type");
  add("--aggregate-type", options.aggregate_type, "TYPE", "Aggregate type");
  add("--aggregate-id", options.aggregate_id, "ID", "Aggregate id");
  add("--tenant", options.tenant, "ID", "Tenant id");
  add("--error", options.error, "TEXT", "Text that the last error contains");
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
    throw UsageError("--since " + options.since + " is not before --until " + options.until +
                     ": no event could match");
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
  command.add_option("--limit", options.limit, "At most N events (default: 50)")
      ->check(between(1, 1'000'000))
      ->type_name("N")
      ->group("Filters");
  command.add_option("--after", options.after, "Only events after this SEQ, for the next page")
      ->check(between(0, INT64_MAX))
      ->type_name("SEQ")
      ->group("Filters");
}

void mention_next_page(const Console& console, const PageOptions& page,
                       const std::vector<EventRecord>& records) {
  if (records.empty() || static_cast<std::int64_t>(records.size()) < page.limit) return;
  console.say("There may be more events: add --after " +
              std::to_string(records.back().row.ref.seq));
}

CLI::Validator between(std::int64_t least, std::int64_t most) {
  const std::string range =
      most == INT64_MAX ? grouped(least) + " up" : grouped(least) + " to " + grouped(most);
  return checked_by(CLI::Range(least, most), "a whole number from " + range);
}

CLI::Validator between(double least, double most, const std::string& range) {
  return checked_by(CLI::Range(least, most), "a number from " + range);
}

CLI::Option* add_repeated(CLI::App& command, const std::string& name,
                          std::vector<std::string>& values, const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false);
}

std::optional<microseconds> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  while (!text.empty()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || !is_digit(text.front())) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const std::string_view name = take_letters(text);
    std::int64_t unit = 0;
    for (const Unit& known : kUnits) {
      if (known.name == name) unit = known.micros;
    }
    if (unit == 0 || number > (kLongest - total) / unit) return std::nullopt;
    total += number * unit;
  }
  return microseconds{total};
}

std::optional<Time> parse_time(std::string_view text) {
  constexpr std::size_t kDayLength = 10;
  if (text.size() == kDayLength) return outbox::parse_time(std::string(text) + "T00:00:00Z");
  return outbox::parse_time(text);
}

microseconds duration_argument(std::string_view option, std::string_view text) {
  if (const auto duration = parse_duration(text)) return *duration;
  throw UsageError(std::string(option) + ": " + quote(text) +
                   " is not a duration; write 90s, 15m, 2h, 7d or 1h30m");
}

Time time_argument(std::string_view option, std::string_view text) {
  if (const auto time = parse_time(text)) return *time;
  throw UsageError(std::string(option) + ": " + quote(text) +
                   " is not a time; write 2026-03-01T12:00:00Z or 2026-03-01");
}

Time past_time(std::string_view option, std::string_view text, Time now) {
  if (const auto duration = parse_duration(text)) {
    if (*duration < now - kEarliestTime) return now - *duration;
  }
  if (const auto time = parse_time(text)) return *time;
  throw UsageError(std::string(option) + ": " + quote(text) +
                   " is neither a time nor a duration; write 2026-03-01T12:00:00Z, 2026-03-01, or "
                   "2h for two hours ago");
}

std::string read_payload(const std::string& argument, std::istream& in) {
  if (argument == "-") return read_all(in, "standard input");
  if (!argument.starts_with("@")) return argument;
  const std::string path = argument.substr(1);
  std::ifstream file(path, std::ios::binary);
  // Opening a folder succeeds; reading it does not.
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    if (!file.is_open() || file.bad()) {
      throw UsageError("--payload: cannot read " + quote(path) + ": " + std::strerror(errno));
    }
    file.clear();
  }
  return read_all(file, quote(path));
}

Headers parse_headers(const std::vector<std::string>& arguments) {
  Headers headers;
  for (const std::string& argument : arguments) {
    const auto equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      const std::string what = equals == 0 ? "the key is empty" : quote(argument) + " has no \"=\"";
      throw UsageError("--header: " + what + "; write KEY=VALUE");
    }
    const std::string key = argument.substr(0, equals);
    if (!headers.emplace(key, argument.substr(equals + 1)).second) {
      throw UsageError("--header: the key " + quote(key) + " is given twice");
    }
  }
  return headers;
}

}  // namespace outbox::cli
