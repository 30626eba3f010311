#include "observer.h"

#include <chrono>
#include <string_view>
#include <thread>
#include <variant>

#include "outbox/error.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kPatience{60};

constexpr const char* kCommitted =
    "SELECT event_id, aggregate, number, ordered, not_before FROM business";
constexpr const char* kEvents = "SELECT count(*) FROM outbox_event";
constexpr const char* kPending = "SELECT count(*) FROM outbox_event WHERE status IN (0, 2)";
constexpr const char* kDead = "SELECT count(*) FROM outbox_event WHERE status = 3";
constexpr const char* kCrashes =
    "SELECT coalesce(max(crashes), 0) FROM outbox_event WHERE hold IS NOT NULL";
constexpr const char* kOwners = "SELECT pid FROM outbox_event_instance";
constexpr const char* kLocksOfTheDead =
    "SELECT count(*) FROM outbox_event WHERE hold IS NOT NULL"
    " AND locked_by NOT IN (SELECT owner FROM outbox_event_instance)";
constexpr const char* kWritten = "SELECT event_id, payload FROM outbox_event";
constexpr const char* kUnfinished =
    "SELECT seq, event_id, aggregate_id, status, hold, attempts, crashes, locked_by, last_error"
    " FROM outbox_event WHERE status <> 1 ORDER BY seq LIMIT 10";
constexpr const char* kUnfinishedNames[] = {"",          " ",           " aggregate ",
                                            " status ",  " hold ",      " attempts ",
                                            " crashes ", " locked by ", " error "};

constexpr const char* kRegistrations = "CREATE TABLE registration (owner VARCHAR(512) NOT NULL)";
constexpr const char* kRegisteredAgain =
    "SELECT count(*) - count(DISTINCT owner) FROM registration";

std::string text_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return "-";
}

}  // namespace

Observer::Observer(Database& database)
    : database_(database), store_(open_patiently(database)), own_(database.connect(*store_)) {
  for (const char* table : {kBusinessTable, kCounterTable}) own_->execute(table);
  own_->execute(fill_counters());
}

Observer::~Observer() = default;

// What has become of events stands in a view if it does not stand in their rows.
std::vector<ResultRow> Observer::query(std::string sql) {
  constexpr std::string_view kTable = "FROM outbox_event";
  const auto table = sql.find(kTable);
  const bool of_events =
      table != std::string::npos && !sql.substr(table).starts_with(std::string(kTable) + "_");
  if (of_events && store_->capabilities().progress == Progress::position) {
    sql.insert(table + kTable.size(), "_state");
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (bool lost = false;; lost = true) {
    try {
      if (lost) own_->recover();
      return own_->connection().query(sql, {});
    } catch (const RetryableError&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(50ms);
  }
}

std::int64_t Observer::number(const std::string& sql) {
  return query(sql).at(0).get<std::int64_t>(0);
}

std::vector<harness::Committed> Observer::committed() {
  std::vector<harness::Committed> result;
  for (const ResultRow& row : query(kCommitted)) {
    result.push_back({.id = row.get<std::string>(0),
                      .aggregate = row.get<std::string>(1),
                      .number = row.get<std::int64_t>(2),
                      .ordered = row.get<std::int64_t>(3) != 0,
                      .not_before = row.get<std::int64_t>(4)});
  }
  return result;
}

std::vector<harness::Committed> Observer::written() {
  std::vector<harness::Committed> result;
  for (const ResultRow& row : query(kWritten)) {
    const Movement movement = parse_payload(row.get<std::string>(1));
    result.push_back({.id = row.get<std::string>(0),
                      .aggregate = movement.aggregate,
                      .number = movement.number});
  }
  return result;
}

std::size_t Observer::events() { return static_cast<std::size_t>(number(kEvents)); }
std::size_t Observer::pending() { return static_cast<std::size_t>(number(kPending)); }
std::size_t Observer::dead() { return static_cast<std::size_t>(number(kDead)); }
std::int64_t Observer::most_crashes() { return number(kCrashes); }

std::vector<pid_t> Observer::owners() {
  std::vector<pid_t> pids;
  for (const ResultRow& row : query(kOwners)) {
    pids.push_back(static_cast<pid_t>(row.get<std::int64_t>(0)));
  }
  return pids;
}

std::size_t Observer::locks_of_the_dead() {
  return static_cast<std::size_t>(number(kLocksOfTheDead));
}

void Observer::note_registrations() {
  own_->execute(kRegistrations);
  for (const std::string& statement : database_.note_registrations()) own_->execute(statement);
  noted_ = true;
}

std::size_t Observer::lost_leases() {
  return noted_ ? static_cast<std::size_t>(number(kRegisteredAgain)) : 0;
}

std::vector<std::string> Observer::unfinished() {
  std::vector<std::string> lines;
  for (const ResultRow& row : query(kUnfinished)) {
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) line += kUnfinishedNames[i] + text_of(row.at(i));
  }
  return lines;
}

}  // namespace outbox::chaos
