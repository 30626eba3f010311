// What people type: the store, the form of the answer, which events; times, durations, payloads
// and headers.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/backend.h"
#include "cli/output/console.h"
#include "outbox/admin/admin.h"
#include "outbox/clock.h"
#include "outbox/event.h"
#include "outbox/spi/store.h"

namespace outbox::cli {

// What the commands are built with: where they speak, and where they leave what
// was asked for. Lives as long as the command line is read and carried out.
struct Session {
  const Console& console;

  // Carries the command out and returns the exit code; set while the command
  // line is read.
  std::function<int()> chosen{};
};

// --- The store and the form ---

struct StoreOptions {
  std::string db{};
  std::string table = "outbox_event";
  std::string subscription{};  // empty: the only one, or the default
  bool json = false;
};

// Adds --db, --table and --json.
void add_store_options(CLI::App& command, StoreOptions& options);

// Adds --subscription.
void add_subscription_option(CLI::App& command, StoreOptions& options);

// Throws UsageError if no store is named, ConfigurationError if it is unknown.
std::unique_ptr<Backend> find_backend(const StoreOptions& options);
std::shared_ptr<Store> open_table(const StoreOptions& options);

// As the subscription sees it that the options name.
std::shared_ptr<Store> open_store(const StoreOptions& options);

// --- Filters ---

struct FilterOptions {
  std::vector<std::string> status{};
  std::string type{};
  std::string aggregate_type{};
  std::string aggregate_id{};
  std::string tenant{};
  std::string error{};
  std::string since{};
  std::string until{};
};

// What --since and --until are about.
enum class FilterTime : std::uint8_t { occurred, died };

// Adds --type, --aggregate-type, --aggregate-id, --tenant, --error, --since and
// --until; for `occurred` also --status, because the dead have but one.
void add_filter_options(CLI::App& command, FilterOptions& options, FilterTime time);

// Throws UsageError for times and states that nobody understands.
EventFilter to_filter(const FilterOptions& options, FilterTime time, Time now);

// In the words of the command line, for questions: `type OrderPlaced, error
// "timeout"`; empty if it matches everything.
std::string describe(const FilterOptions& options);

// --- Pages ---

struct PageOptions {
  std::int64_t limit = 50;
  std::int64_t after = 0;
};

void add_page_options(CLI::App& command, PageOptions& options);

// Says on standard error that the page was full and how to get the next one.
void mention_next_page(const Console& console, const PageOptions& page,
                       const std::vector<EventRecord>& records);

// --- Numbers, times and durations ---

// Refuses other numbers; says so when it happens, not in the help. `range` is "0.001 up".
CLI::Validator between(std::int64_t least, std::int64_t most);
CLI::Validator between(double least, double most, const std::string& range);

// May be repeated; each time it takes one value, as it is.
CLI::Option* add_repeated(CLI::App& command, const std::string& name,
                          std::vector<std::string>& values, const std::string& help);

// "250ms", "90s", "15m", "2h", "7d", "1w", or several: "1h30m". Not negative.
// None if it is no duration, or longer than 1,000 years.
std::optional<std::chrono::microseconds> parse_duration(std::string_view text);

// RFC 3339, "2026-03-01T12:00:00Z", with a fraction and an offset if wanted; a
// day, "2026-03-01", which begins at midnight UTC. None for anything else.
std::optional<Time> parse_time(std::string_view text);

// A time, or a duration before `now`. Throws UsageError that names the option.
Time past_time(std::string_view option, std::string_view text, Time now);

// Throw UsageError that names the option and says what would be understood.
std::chrono::microseconds duration_argument(std::string_view option, std::string_view text);
Time time_argument(std::string_view option, std::string_view text);

// --- The contents of an event ---

// The text itself, the contents of the file in "@file", or all of `in` for "-".
// Throws UsageError if the file cannot be read, or if there is more than an
// event may hold, of which no more is read.
std::string read_payload(const std::string& argument, std::istream& in);

// "key=value" each; a value may contain "=". Throws UsageError for one without,
// and for a key that comes twice; the values are never part of the message.
Headers parse_headers(const std::vector<std::string>& arguments);

}  // namespace outbox::cli
