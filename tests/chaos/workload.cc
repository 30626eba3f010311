#include "workload.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "outbox/error.h"
#include "settings.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr int kBusyAggregates = 16;

// Of a large transaction, and how many events of each it writes.
constexpr int kBulkAggregates = 8;
constexpr int kBulkEvents = 25;
constexpr microseconds kAfterAFailure{20'000};

constexpr std::string_view kThere = " there";
constexpr std::string_view kAbsent = " absent";

// Begins a line of the book of transactions.
constexpr std::string_view kTries = "tries ";
constexpr std::array<std::pair<harness::Told, std::string_view>, 3> kTold{
    {{harness::Told::committed, "committed"},
     {harness::Told::failed, "failed"},
     {harness::Told::unknown, "unknown"}}};

// Nothing in a run has a quote in it.
std::string in_quotes(const std::string& text) { return "'" + text + "'"; }

}  // namespace

std::string fill_counters() {
  std::string sql =
      "INSERT INTO counter (aggregate, last) VALUES ('', 0), ('slow0', 0), ('slow1', 0)";
  for (int n = 0; n < kAggregates; ++n) sql += ", ('a" + std::to_string(n) + "', 0)";
  return sql;
}

std::int64_t next_numbers(Connection& connection, const std::string& aggregate, std::size_t count) {
  const std::string row = " WHERE aggregate = " + in_quotes(aggregate);
  connection.execute("UPDATE counter SET last = last + " + std::to_string(count) + row, {});
  return connection.query("SELECT last FROM counter" + row, {}).at(0).get<std::int64_t>(0);
}

void record(Connection& connection, std::span<const harness::Committed> rows) {
  std::string sql =
      "INSERT INTO business (event_id, aggregate, number, ordered, not_before) VALUES ";
  const char* separator = "(";
  for (const harness::Committed& row : rows) {
    sql += separator + in_quotes(row.id) + ", " + in_quotes(row.aggregate) + ", " +
           std::to_string(row.number) + ", " + (row.ordered ? "1" : "0") + ", " +
           std::to_string(row.not_before) + ")";
    separator = ", (";
  }
  connection.execute(sql, {});
}

void record(Connection& connection, const harness::Committed& row) {
  record(connection, {&row, 1});
}

std::string to_line(const Resolved& outcome) {
  return outcome.id + std::string(outcome.happened ? kThere : kAbsent);
}

Resolved parse_outcome(const std::string& line) {
  for (const bool happened : {true, false}) {
    const std::string_view end = happened ? kThere : kAbsent;
    if (line.ends_with(end)) {
      return {.id = line.substr(0, line.size() - end.size()), .happened = happened};
    }
  }
  throw std::runtime_error("not an outcome: " + line);
}

std::string to_line(const std::vector<std::string>& ids) {
  std::string line(kTries);
  for (const std::string& id : ids) line += id + " ";
  return line;
}

std::string to_line(harness::Told told) {
  const auto* const name = std::find_if(kTold.begin(), kTold.end(),
                                        [&](const auto& each) { return each.first == told; });
  return std::string(name->second);
}

std::vector<harness::Attempt> parse_attempts(const std::vector<std::string>& lines) {
  std::vector<harness::Attempt> attempts;
  for (const std::string& line : lines) {
    if (line.starts_with(kTries)) {
      std::istringstream ids(line.substr(kTries.size()));
      harness::Attempt& attempt = attempts.emplace_back();
      for (std::string id; ids >> id;) attempt.ids.push_back(id);
      continue;
    }
    const auto* const told = std::find_if(kTold.begin(), kTold.end(),
                                          [&](const auto& each) { return each.second == line; });
    if (told == kTold.end() || attempts.empty())
      throw std::runtime_error("not an attempt: " + line);
    attempts.back().told = told->first;
  }
  return attempts;
}

std::string to_payload(const Movement& movement) {
  return R"({"number":)" + std::to_string(movement.number) + R"(,"aggregate":")" +
         movement.aggregate + R"("})";
}

Movement parse_payload(const std::string& payload) {
  long long number = 0;
  int aggregate_at = 0;
  std::sscanf(payload.c_str(), R"({"number":%lld,"aggregate":"%n)", &number, &aggregate_at);
  const auto begin = static_cast<std::size_t>(aggregate_at);
  const std::size_t end = payload.find('"', begin);
  if (aggregate_at == 0 || end == std::string::npos) {
    throw std::runtime_error("not a payload of this run: " + payload);
  }
  return {.aggregate = payload.substr(begin, end - begin), .number = number};
}

Workload::Workload(Writer& writer, std::unique_ptr<OwnConnection> own,
                   const WorkloadOptions& options)
    : writer_(writer),
      own_(std::move(own)),
      delays_(options.delays),
      random_(options.seed),
      rollbacks_(options.rollbacks),
      outcomes_(options.outcomes),
      attempts_(options.attempts) {}

Workload::~Workload() = default;

int Workload::dice(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random_); }

void Workload::pause(const std::stop_token& stop, microseconds time) {
  std::mutex mutex;
  std::condition_variable_any nothing;
  std::unique_lock lock(mutex);
  nothing.wait_for(lock, stop, time, [] { return false; });
}

// Does the work, or finds out that nothing has happened, or what has.
template <class Work>
bool Workload::attempt(const std::stop_token& stop, const Work& work) {
  ids_.clear();
  tried_ = false;
  try {
    work();
    return true;
  } catch (const RetryableError&) {
    // The database is unreachable, a process that was stopped inside a transaction kept
    // us out, or two waited for each other.
    note(harness::Told::failed);
  } catch (const OutcomeUnknownError&) {
    note(harness::Told::unknown);
    resolve(stop);
  }
  while (!stop.stop_requested()) {
    try {
      own_->recover();
      break;
    } catch (const RetryableError&) {
      pause(stop, kAfterAFailure);
    }
  }
  return false;
}

template <class Commit>
void Workload::try_to_commit(const Commit& work) {
  attempts_.append(to_line(ids_));
  tried_ = true;
  work();
  note(harness::Told::committed);
}

void Workload::note(harness::Told told) {
  if (std::exchange(tried_, false)) attempts_.append(to_line(told));
}

// Committed or not, business row and event agree. But the server may still be
// about to commit: the aggregate's lock is free when it has made up its mind.
void Workload::resolve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      own_->recover();
      own_->begin();
      next_numbers(own_->connection(), first_aggregate_);
      const auto found = own_->connection().query(
          "SELECT count(*) FROM business WHERE event_id = " + in_quotes(ids_.front()), {});
      own_->recover();
      outcomes_.append(
          to_line(Resolved{.id = ids_.front(), .happened = found[0].get<std::int64_t>(0) > 0}));
      return;
    } catch (const RetryableError&) {
      pause(stop, kAfterAFailure);
    }
  }
}

void Workload::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    attempt(stop, [this] { transaction(); });
    // The pace of the application; most transactions follow each other closely.
    pause(stop, dice(4) == 0 ? microseconds{dice(20'000)} : microseconds{dice(2'000)});
  }
  while (!attempt({}, [this] { commit_some(); })) {
  }
}

void Workload::run_in_bulk(const std::stop_token& stop, int rate) {
  const auto interval =
      std::chrono::microseconds{std::chrono::seconds{1}} * (kBulkAggregates * kBulkEvents) / rate;
  auto due = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    attempt(stop, [this] { bulk_transaction(); });
    // What an outage has kept back is not made up for.
    const auto now = std::chrono::steady_clock::now();
    due = std::max(due + interval, now);
    pause(stop, std::chrono::duration_cast<microseconds>(due - now));
  }
}

void Workload::run_slowly(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    attempt(stop, [&] { slow_transaction(stop); });
    pause(stop, microseconds{dice(200'000)});
  }
}

void Workload::transaction() {
  const int kind = dice(20);
  if (kind < 10) return commit_some();
  if (kind < 12) return roll_back();
  if (kind < 14) return roll_back_a_part();
  if (kind < 16) return on_own_connection(true, true);
  if (kind < 17) return on_own_connection(false, true);
  if (kind < 18) return on_own_connection(false, false);
  by_plain_sql();
}

void Workload::commit_some() {
  auto tx = writer_.begin();
  if (dice(4) > 0) {
    write(tx);
  } else {
    std::vector<Draft> drafts;
    // Now and then more than the dispatchers can hold, so that they have to set
    // events held and come back for them.
    const int size = dice(12) == 0 ? 50 + dice(200) : 2 + dice(3);
    std::vector<Plan> plans;
    plans.reserve(static_cast<std::size_t>(size));
    for (int n = 0; n < size; ++n) plans.push_back(plan());
    // In one order, as programs that lock many rows should: few wait for each other then.
    std::sort(plans.begin(), plans.end(),
              [](const Plan& a, const Plan& b) { return a.aggregate < b.aggregate; });
    drafts.reserve(plans.size());
    for (const Plan& each : plans) drafts.push_back(draft(tx.connection(), each));
    const std::vector<std::string> ids = tx.write_all(drafts);
    for (std::size_t i = 0; i < ids.size(); ++i) record(tx.connection(), ids[i], drafts[i]);
  }
  try_to_commit([&] { tx.commit(); });
}

void Workload::roll_back() {
  std::string id;
  {
    auto tx = writer_.begin();
    id = write(tx);
    if (dice(2) == 0) tx.rollback();  // else it goes out of scope
  }
  rollbacks_.append(id);
}

void Workload::roll_back_a_part() {
  auto tx = writer_.begin();
  write(tx);
  std::string undone;
  {
    auto savepoint = tx.savepoint();
    undone = write(tx);
    savepoint.rollback();
    ids_.pop_back();
  }
  auto kept = tx.savepoint();
  write(tx);
  kept.release();
  try_to_commit([&] { tx.commit(); });
  rollbacks_.append(undone);
}

void Workload::on_own_connection(bool tell, bool commit) {
  own_->begin();
  WriteToken token = write_on_own(plan());
  if (!commit) {
    own_->recover();
    rollbacks_.append(token.ids().front());
    return;
  }
  try_to_commit([&] { own_->commit(); });
  if (tell) token.committed();
}

// As a program would that knows nothing of this library.
void Workload::by_plain_sql() {
  own_->begin();
  Connection& connection = own_->connection();
  const Draft event = draft(connection, {.aggregate = plan().aggregate});
  const std::string id = "sql-" + new_id();
  own_->execute(
      "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
      " VALUES (" +
      in_quotes(id) + ", " + in_quotes(kEventType) + ", " + in_quotes(kAggregateType) + ", " +
      (event.aggregate_id.str().empty() ? "NULL" : in_quotes(event.aggregate_id.str())) + ", " +
      in_quotes(event.payload.data()) + ")");
  record(connection, id, event);
  try_to_commit([&] { own_->commit(); });
}

void Workload::bulk_transaction() {
  auto tx = writer_.begin();
  std::vector<Draft> drafts;
  std::vector<harness::Committed> rows;
  // In one order, beginning anywhere, so that two at once do not wait for each other.
  const int first = kBusyAggregates + dice(kAggregates - kBusyAggregates - kBulkAggregates);
  for (int n = first; n < first + kBulkAggregates; ++n) {
    const std::string aggregate = "a" + std::to_string(n);
    const std::int64_t last = next_numbers(tx.connection(), aggregate, kBulkEvents);
    for (std::int64_t number = last - kBulkEvents + 1; number <= last; ++number) {
      drafts.push_back({.type = kEventType,
                        .aggregate_type = kAggregateType,
                        .aggregate_id = aggregate,
                        .payload = json(to_payload({.aggregate = aggregate, .number = number}))});
      rows.push_back({.aggregate = aggregate, .number = number});
    }
  }
  ids_ = tx.write_all(drafts);
  first_aggregate_ = rows.front().aggregate;
  for (std::size_t i = 0; i < ids_.size(); ++i) rows[i].id = ids_[i];
  chaos::record(tx.connection(), rows);
  try_to_commit([&] { tx.commit(); });
}

// Its aggregates are its own: nobody waits seconds for their lock.
void Workload::slow_transaction(const std::stop_token& stop) {
  own_->begin();
  const Plan slow{.aggregate = "slow" + std::to_string(dice(2))};
  write_on_own(slow);
  pause(stop, 500ms + microseconds{dice(3'000'000)});
  write_on_own(slow);
  try_to_commit([&] { own_->commit(); });
}

WriteToken Workload::write_on_own(const Plan& plan) {
  Connection& connection = own_->connection();
  const Draft event = draft(connection, plan);
  WriteToken token = writer_.write(connection, event);
  record(connection, token.ids().front(), event);
  return token;
}

Workload::Plan Workload::plan() {
  const int kind = dice(20);
  if (kind == 0) return {};  // without an aggregate id: no order
  return {.aggregate = "a" + std::to_string(dice(kBusyAggregates)),
          .delayed = delays_ && kind == 1};
}

std::string Workload::write(Transaction& tx) {
  const Draft event = draft(tx.connection(), plan());
  std::string id = tx.write(event);
  record(tx.connection(), id, event);
  return id;
}

Draft Workload::draft(Connection& connection, const Plan& plan) {
  const Movement movement{.aggregate = plan.aggregate,
                          .number = next_numbers(connection, plan.aggregate)};
  Draft result{.type = kEventType,
               .aggregate_type = kAggregateType,
               .aggregate_id = plan.aggregate,
               .payload = json(to_payload(movement))};
  if (plan.delayed) {
    // A time, and not a span: the business row says the same one. A long list
    // may be written after it has come, so the event says when it occurred.
    result.occurred_at = host_clock().now();
    result.deliver_at = *result.occurred_at + microseconds{1'000 + dice(30'000)};
  }
  return result;
}

void Workload::record(Connection& connection, const std::string& id, const Draft& draft) {
  const Movement movement = parse_payload(draft.payload.data());
  chaos::record(
      connection,
      {.id = id,
       .aggregate = movement.aggregate,
       .number = movement.number,
       .ordered = !movement.aggregate.empty() && !draft.deliver_at,
       .not_before = draft.deliver_at ? draft.deliver_at->time_since_epoch().count() : 0});
  if (ids_.empty()) first_aggregate_ = movement.aggregate;
  ids_.push_back(id);
}

}  // namespace outbox::chaos
