#include "store/sqlite/broken_rows.h"

#include <chrono>
#include <string>

#include "base/quote.h"
#include "outbox/error.h"
#include "store/sqlite/operator_sql.h"

namespace outbox::sqlite {
namespace {

constexpr std::chrono::seconds kBetweenLooks{10};

// Numbers as they are, of anything else what it is: it may be large.
std::string shown(const Run& run, int column) {
  switch (run.type(column)) {
    case SQLITE_NULL:
      return "NULL";
    case SQLITE_TEXT:
      return "a TEXT";
    case SQLITE_BLOB:
      return "a BLOB";
    default:
      return std::string(run.text(column));
  }
}

std::string first_of_them(Database& database) {
  Run run(database[sql::kFirstBroken]);
  if (!run.step()) return {};
  return ", the first is event " + quote(run.text(0)) + " (status " + shown(run, 1) + ", hold " +
         shown(run, 2) + ")";
}

}  // namespace

std::int64_t count_broken_rows(Database& database) {
  return database.integer(sql::kCountBroken).value_or(0);
}

std::string contradiction(const Run& run, int status_column, int hold_column) {
  const bool known = run.type(status_column) == SQLITE_INTEGER && run.integer(status_column) >= 0 &&
                     run.integer(status_column) <= 3;
  if (!known) return "status is " + shown(run, status_column) + ", none of 0 to 3";
  const bool null = run.is_null(hold_column);
  const bool integer = run.type(hold_column) == SQLITE_INTEGER;
  bool sound = integer;
  switch (static_cast<Status>(run.integer(status_column))) {
    case Status::pending:
    case Status::retry:
      break;
    case Status::done:
      sound = null;
      break;
    case Status::dead:
      sound = null || (integer && run.integer(hold_column) > 0);
      break;
  }
  if (sound) return {};
  return "status " + shown(run, status_column) + " and hold " + shown(run, hold_column) +
         " contradict each other";
}

void BrokenRowsReport::look(Database& database) {
  const Clock::Steady now = database.config().options.clock->steady();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  try {
    report(database);
  } catch (const MisuseError& error) {
    // Somebody dropped the index. That is no reason not to deliver.
    next_look_ = Clock::Steady::max();
    database.config().options.log(
        {LogLevel::warning, "index_missing", error.what(), {{"error", error.what()}}});
  }
}

void BrokenRowsReport::report(Database& database) {
  const std::int64_t count = count_broken_rows(database);
  if (count > reported_) {
    database.config().options.log(
        {LogLevel::error,
         "rows_contradictory",
         std::to_string(count) +
             (count == 1 ? " row contradicts itself and is not delivered"
                         : " rows contradict themselves and are not delivered") +
             first_of_them(database) + "; run: outbox doctor --repair (" +
             database.config().description + ")",
         {{"rows", count}, {"store", database.config().description}}});
  }
  reported_ = count;
}

}  // namespace outbox::sqlite
