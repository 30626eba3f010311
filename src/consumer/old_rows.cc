#include "consumer/old_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "consumer/dialect.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

// What every database can subtract from the time. Nothing is as old.
constexpr seconds kLongest{std::chrono::hours{24 * 365 * 100}};

OldRowsOptions checked(OldRowsOptions options, const std::string& name) {
  const auto check = [&](const char* option, std::int64_t value, const char* unit) {
    if (value > 0) return;
    throw MisuseError(name + "::" + option + " must be positive, got " + std::to_string(value) +
                      unit);
  };
  check("retention", options.retention.count(), " s");
  check("purge_interval", options.interval.count(), " ms");
  check("purge_batch", static_cast<std::int64_t>(options.batch), "");
  options.retention = std::min(options.retention, kLongest);
  return options;
}

// As a query of its own the time is found once, so that the index can be used by it.
std::string is_old(const OldRowsOptions& options) {
  std::string text = options.since + " < (SELECT {before ?})";
  if (!options.condition.empty()) text += " AND (" + options.condition + ")";
  return text;
}

std::string find_one(const OldRowsOptions& options) {
  return "SELECT 1 FROM " + options.table + " WHERE " + is_old(options) + " LIMIT 1";
}

// MySQL cannot read what it deletes from, and the others cannot limit a DELETE. They are
// asked twice for the age, because a row may change between the two.
std::string remove_some(const OldRowsOptions& options, Dialect dialect) {
  const std::string first = " WHERE " + is_old(options) + " ORDER BY " + options.since + " LIMIT ?";
  if (dialect == Dialect::mysql) return "DELETE FROM " + options.table + first;
  return "DELETE FROM " + options.table + " WHERE (" + options.key + ") IN (SELECT " + options.key +
         " FROM " + options.table + first + ") AND " + is_old(options);
}

}  // namespace

OldRows::OldRows(std::shared_ptr<Store> store, OldRowsOptions options,
                 const std::string& options_name)
    : store_(std::move(store)),
      options_(checked(std::move(options), options_name)),
      find_(render_sql(find_one(options_), *store_, options_.what)),
      remove_(render_sql(remove_some(options_, store_->capabilities().dialect), *store_,
                         options_.what)),
      schedule_({.what = "purge of the " + options_.what,
                 .thread = "outbox-" + options_.what.substr(0, 8),
                 .interval = options_.interval,
                 .log = options_.log},
                [this](const std::stop_token& stop) {
                  const std::int64_t removed = purge(stop);
                  if (removed == 0) return;
                  options_.log({LogLevel::info,
                                "purged",
                                "purge of the " + options_.what + ": removed " +
                                    std::to_string(removed) + " records",
                                {{"what", options_.what}, {"removed", removed}}});
                }) {}

std::int64_t OldRows::purge(const std::stop_token& stop) {
  const std::int64_t age = microseconds(options_.retention).count();
  const auto limit = static_cast<std::int64_t>(options_.batch);
  std::vector<Parameter> values{age, limit};
  if (store_->capabilities().dialect != Dialect::mysql) values.emplace_back(age);
  std::int64_t removed = 0;
  while (!stop.stop_requested()) {
    const auto connection = store_->connect();
    // A search keeps nobody waiting; a DELETE that finds nothing may, on InnoDB, keep
    // those waiting who insert at the end of what it looked through.
    if (connection->query(find_, std::vector<Parameter>{age}).empty()) break;
    const std::int64_t rows = connection->execute(remove_, values);
    removed += rows;
    if (rows < limit) break;  // that was all, or others are at it
  }
  return removed;
}

}  // namespace outbox::internal
