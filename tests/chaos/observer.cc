#include "observer.h"

#include <chrono>
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
constexpr const char* kPending = "SELECT count(*) FROM outbox_event WHERE status IN (0, 2)";
constexpr const char* kDead = "SELECT count(*) FROM outbox_event WHERE status = 3";
constexpr const char* kCrashes =
    "SELECT coalesce(max(crashes), 0) FROM outbox_event WHERE hold IS NOT NULL";
constexpr const char* kOwners = "SELECT pid FROM outbox_event_instance";
constexpr const char* kUnfinished =
    "SELECT seq || ' ' || event_id || ' aggregate ' || coalesce(aggregate_id, '-')"
    " || ' status ' || status || ' hold ' || coalesce(CAST(hold AS TEXT), 'NULL')"
    " || ' attempts ' || attempts || ' crashes ' || crashes"
    " || ' locked by ' || coalesce(locked_by, '-') || ' error ' || coalesce(last_error, '-')"
    " FROM outbox_event WHERE status <> 1 ORDER BY seq LIMIT 10";

constexpr const char* kNoteRegistrations[] = {
    "CREATE TABLE registration (owner text NOT NULL)",
    "CREATE FUNCTION note_registration() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO registration VALUES (NEW.owner); RETURN NULL; END'",
    "CREATE TRIGGER note_registration AFTER INSERT ON outbox_event_instance"
    " FOR EACH ROW EXECUTE FUNCTION note_registration()",
};
constexpr const char* kRegisteredAgain =
    "SELECT count(*) - count(DISTINCT owner) FROM registration";

}  // namespace

Observer::Observer(Database& database)
    : store_(open_patiently(database)), own_(database.connect(*store_)) {
  for (const char* table : {kBusinessTable, kCounterTable}) own_->execute(table);
}

Observer::~Observer() = default;

std::vector<ResultRow> Observer::query(const std::string& sql) {
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
  return std::get<std::int64_t>(query(sql).at(0).at(0));
}

std::vector<Committed> Observer::committed() {
  std::vector<Committed> result;
  for (const ResultRow& row : query(kCommitted)) {
    result.push_back({.id = std::get<std::string>(row[0]),
                      .aggregate = std::get<std::string>(row[1]),
                      .number = std::get<std::int64_t>(row[2]),
                      .ordered = std::get<std::int64_t>(row[3]) != 0,
                      .not_before = std::get<std::int64_t>(row[4])});
  }
  return result;
}

std::size_t Observer::pending() { return static_cast<std::size_t>(number(kPending)); }
std::size_t Observer::dead() { return static_cast<std::size_t>(number(kDead)); }
std::int64_t Observer::most_crashes() { return number(kCrashes); }

std::vector<pid_t> Observer::owners() {
  std::vector<pid_t> pids;
  for (const ResultRow& row : query(kOwners)) {
    pids.push_back(static_cast<pid_t>(std::get<std::int64_t>(row[0])));
  }
  return pids;
}

void Observer::note_registrations() {
  for (const char* statement : kNoteRegistrations) own_->execute(statement);
  noted_ = true;
}

std::size_t Observer::lost_leases() {
  return noted_ ? static_cast<std::size_t>(number(kRegisteredAgain)) : 0;
}

std::vector<std::string> Observer::unfinished() {
  std::vector<std::string> lines;
  for (const ResultRow& row : query(kUnfinished)) lines.push_back(std::get<std::string>(row[0]));
  return lines;
}

}  // namespace outbox::chaos
