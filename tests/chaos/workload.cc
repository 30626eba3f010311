#include "workload.h"

#include <sqlite3.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "outbox/error.h"
#include "settings.h"

namespace outbox::chaos {
namespace {

using std::chrono::microseconds;

constexpr int kAggregates = 16;
constexpr int kBusyTimeoutMs = 5'000;

constexpr const char* kNextNumber =
    "INSERT INTO counter (aggregate, last) VALUES (?, 1)"
    " ON CONFLICT (aggregate) DO UPDATE SET last = last + 1 RETURNING last";
constexpr const char* kRecord =
    "INSERT INTO business (event_id, aggregate, number, ordered, not_before)"
    " VALUES (?, ?, ?, ?, ?)";

}  // namespace

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

// A connection that the application opened by itself.
class Workload::OwnConnection {
 public:
  OwnConnection(const std::string& database, Store& store) : db_(open(database)) {
    borrowed_ = std::make_unique<sqlite::Borrowed>(db_.get(), store);
  }

  Connection& connection() { return *borrowed_; }

  // False if the database stayed busy: nothing has happened then.
  bool execute(const char* sql) {
    const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return true;
    const std::string what = sqlite3_errmsg(db_.get());
    roll_back();
    if ((code & 0xff) == SQLITE_BUSY) return false;
    throw std::runtime_error(std::string(sql) + ": " + what);
  }

  void roll_back() {
    if (sqlite3_get_autocommit(db_.get()) == 0) {
      sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  using Handle = std::unique_ptr<sqlite3, Close>;

  static Handle open(const std::string& path) {
    sqlite3* db = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
    Handle handle(db);
    if (code != SQLITE_OK) throw std::runtime_error("cannot open " + path);
    sqlite3_busy_timeout(db, kBusyTimeoutMs);
    return handle;
  }

  const Handle db_;
  std::unique_ptr<sqlite::Borrowed> borrowed_;  // goes before the handle
};

Workload::Workload(Writer& writer, Store& store, const std::string& database,
                   const std::string& rollbacks, std::uint64_t seed)
    : writer_(writer),
      random_(seed),
      rollbacks_(rollbacks),
      own_(std::make_unique<OwnConnection>(database, store)) {}

Workload::~Workload() = default;

int Workload::dice(int sides) { return std::uniform_int_distribution<int>{0, sides - 1}(random_); }

void Workload::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any pause;
  while (!stop.stop_requested()) {
    try {
      transaction();
    } catch (const RetryableError&) {
      // A process that was stopped inside a transaction kept the others out.
      own_->roll_back();
    } catch (const OutcomeUnknownError&) {
      // Committed or not, business row and event agree.
    }
    // The pace of the application; most transactions follow each other closely.
    const microseconds wait = dice(4) == 0 ? microseconds{dice(20'000)} : microseconds{dice(2'000)};
    std::unique_lock lock(mutex);
    pause.wait_for(lock, stop, wait, [] { return false; });
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
    // events aside and come back for them.
    const int size = dice(12) == 0 ? 50 + dice(200) : 2 + dice(3);
    for (int n = 0; n < size; ++n) drafts.push_back(draft(tx.connection(), plan()));
    const std::vector<std::string> ids = tx.write_all(drafts);
    for (std::size_t i = 0; i < ids.size(); ++i) record(tx.connection(), ids[i], drafts[i]);
  }
  tx.commit();
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
  }
  auto kept = tx.savepoint();
  write(tx);
  kept.release();
  tx.commit();
  rollbacks_.append(undone);
}

void Workload::on_own_connection(bool tell, bool commit) {
  if (!own_->execute("BEGIN IMMEDIATE")) return;
  Connection& connection = own_->connection();
  const Draft event = draft(connection, plan());
  WriteToken token = writer_.write(connection, event);
  record(connection, token.ids().front(), event);
  if (!commit) {
    own_->roll_back();
    rollbacks_.append(token.ids().front());
    return;
  }
  if (own_->execute("COMMIT") && tell) token.committed();
}

// As a program would that knows nothing of this library.
void Workload::by_plain_sql() {
  if (!own_->execute("BEGIN IMMEDIATE")) return;
  Connection& connection = own_->connection();
  const Draft event = draft(connection, {.aggregate = plan().aggregate});
  const std::string id = "sql-" + new_id();
  const std::string sql =
      "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
      " VALUES ('" +
      id + "', '" + kEventType + "', '" + kAggregateType + "', " +
      (event.aggregate_id.empty() ? "NULL" : "'" + event.aggregate_id + "'") + ", '" +
      event.payload.data() + "')";
  if (!own_->execute(sql.c_str())) return;
  record(connection, id, event);
  own_->execute("COMMIT");
}

Workload::Plan Workload::plan() {
  const int kind = dice(20);
  if (kind == 0) return {};  // without an aggregate id: no order
  return {.aggregate = "a" + std::to_string(dice(kAggregates)), .delayed = kind == 1};
}

std::string Workload::write(Transaction& tx) {
  const Draft event = draft(tx.connection(), plan());
  std::string id = tx.write(event);
  record(tx.connection(), id, event);
  return id;
}

// Takes the next number, and with it the aggregate's lock.
Draft Workload::draft(Connection& connection, const Plan& plan) {
  const std::vector<Value> key{plan.aggregate};
  const auto rows = connection.query(kNextNumber, key);
  const Movement movement{.aggregate = plan.aggregate,
                          .number = std::get<std::int64_t>(rows[0][0])};
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
  const bool ordered = !movement.aggregate.empty() && !draft.deliver_at;
  const std::int64_t not_before =
      draft.deliver_at ? draft.deliver_at->time_since_epoch().count() : 0;
  const std::vector<Value> values{id, movement.aggregate, movement.number,
                                  std::int64_t{ordered ? 1 : 0}, not_before};
  connection.execute(kRecord, values);
}

}  // namespace outbox::chaos
