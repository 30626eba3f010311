// What the application does: transactions of every kind that the library knows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "database.h"
#include "harness/ledger.h"
#include "harness/verdict.h"
#include "outbox/writer.h"

namespace outbox::chaos {

// The tables of the application, beside the outbox. One statement each, in an SQL that
// all databases understand; so values stand in them, and no parameters.
inline constexpr const char* kBusinessTable =
    "CREATE TABLE business (event_id VARCHAR(64) PRIMARY KEY, aggregate VARCHAR(64) NOT NULL,"
    " number BIGINT NOT NULL, ordered INTEGER NOT NULL, not_before BIGINT NOT NULL)";
inline constexpr const char* kCounterTable =
    "CREATE TABLE counter (aggregate VARCHAR(64) PRIMARY KEY, last BIGINT NOT NULL)";

// The aggregates that may have numbers: a0, a1, ..., two slow ones, and none at all.
inline constexpr int kAggregates = 40;
std::string fill_counters();  // one statement

// Takes the next numbers of the aggregate, and with them the aggregate's lock, until the
// transaction ends. The last of them.
std::int64_t next_numbers(Connection& connection, const std::string& aggregate,
                          std::size_t count = 1);

// Adds the business rows, in one statement.
void record(Connection& connection, std::span<const harness::Committed> rows);
void record(Connection& connection, const harness::Committed& row);

// What a transaction whose COMMIT was not answered did, as the database said
// when it was asked.
struct Resolved {
  std::string id{};  // of one of its events
  bool happened = false;
};
std::string to_line(const Resolved& outcome);
Resolved parse_outcome(const std::string& line);

// The book of the transactions that a thread tried to commit: a line with their events
// before each COMMIT, and one with what it was told after it, if it lived to hear it.
std::string to_line(const std::vector<std::string>& ids);
std::string to_line(harness::Told told);
std::vector<harness::Attempt> parse_attempts(const std::vector<std::string>& lines);

struct WorkloadOptions {
  // What was rolled back, what became of unknown outcomes, and what was to be committed: a
  // file each.
  std::string rollbacks{};
  std::string outcomes{};
  std::string attempts{};

  std::uint64_t seed = 0;

  // Whether some events are delayed: not where the clock is wrong.
  bool delays = true;
};

// One thread's share of the work: one transaction after the other until it is
// told to stop. Each takes the next number of an aggregate, writes a business
// row and an event that carries the number; some are rolled back, some in part,
// some run on a connection of the user's own, some insert by plain SQL.
//
// Used by one thread.
class Workload {
 public:
  Workload(Writer& writer, std::unique_ptr<OwnConnection> own, const WorkloadOptions& options);
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  // Ends with an event that the library writes: its commit tells the others also
  // of what plain SQL has written before.
  void run(const std::stop_token& stop);

  // Large transactions, so many events a second in all, instead of all others. Their
  // aggregates are their own, so that nobody waits for them.
  void run_in_bulk(const std::stop_token& stop, int rate);

  // Transactions that take their place in the table early and commit seconds
  // later, instead of all others. Where writers do not keep each other out.
  void run_slowly(const std::stop_token& stop);

 private:
  struct Plan {
    std::string aggregate{};
    bool delayed = false;
  };

  // False if it did not succeed.
  template <class Work>
  bool attempt(const std::stop_token& stop, const Work& work);
  template <class Commit>
  void try_to_commit(const Commit& work);
  void note(harness::Told told);
  void transaction();
  void commit_some();
  void roll_back();
  void roll_back_a_part();
  void on_own_connection(bool tell, bool commit);
  void by_plain_sql();
  void bulk_transaction();
  void slow_transaction(const std::stop_token& stop);
  void resolve(const std::stop_token& stop);

  Plan plan();
  Draft draft(Connection& connection, const Plan& plan);
  void record(Connection& connection, const std::string& id, const Draft& draft);
  std::string write(Transaction& tx);
  WriteToken write_on_own(const Plan& plan);
  static void pause(const std::stop_token& stop, std::chrono::microseconds time);
  int dice(int sides);

  // Constant after construction.
  Writer& writer_;
  const std::unique_ptr<OwnConnection> own_;
  const bool delays_;

  std::mt19937_64 random_;
  harness::Ledger rollbacks_;
  harness::Ledger outcomes_;
  harness::Ledger attempts_;

  // The events of the transaction under way, the aggregate of the first, and whether it was
  // tried to commit it.
  std::vector<std::string> ids_;
  std::string first_aggregate_;
  bool tried_ = false;
};

// The payload of an event, and what it says.
struct Movement {
  std::string aggregate{};
  std::int64_t number = 0;
};
std::string to_payload(const Movement& movement);
Movement parse_payload(const std::string& payload);

}  // namespace outbox::chaos
