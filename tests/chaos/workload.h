// What the application does: transactions of every kind that the library knows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <stop_token>
#include <string>

#include "ledger.h"
#include "outbox/sqlite.h"
#include "outbox/writer.h"

namespace outbox::chaos {

// The tables of the application, beside the outbox. One statement each.
inline constexpr const char* kBusinessTable =
    "CREATE TABLE IF NOT EXISTS business (event_id TEXT PRIMARY KEY, aggregate TEXT NOT NULL,"
    " number INTEGER NOT NULL, ordered INTEGER NOT NULL, not_before INTEGER NOT NULL)";
inline constexpr const char* kCounterTable =
    "CREATE TABLE IF NOT EXISTS counter (aggregate TEXT PRIMARY KEY, last INTEGER NOT NULL)";

// One thread's share of the work: one transaction after the other until it is
// told to stop. Each takes the next number of an aggregate, writes a business
// row and an event that carries the number; some are rolled back, some in part,
// some run on a connection of the user's own, some insert by plain SQL.
//
// Used by one thread.
class Workload {
 public:
  // `store` is the SQLite store of that database, whatever wraps it elsewhere.
  Workload(Writer& writer, Store& store, const std::string& database, const std::string& rollbacks,
           std::uint64_t seed);
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  void run(const std::stop_token& stop);

 private:
  class OwnConnection;
  struct Plan {
    std::string aggregate{};
    bool delayed = false;
  };

  void transaction();
  void commit_some();
  void roll_back();
  void roll_back_a_part();
  void on_own_connection(bool tell, bool commit);
  void by_plain_sql();

  Plan plan();
  Draft draft(Connection& connection, const Plan& plan);
  void record(Connection& connection, const std::string& id, const Draft& draft);
  std::string write(Transaction& tx);
  int dice(int sides);

  // Constant after construction.
  Writer& writer_;

  std::mt19937_64 random_;
  Ledger rollbacks_;
  std::unique_ptr<OwnConnection> own_;
};

// The payload of an event, and what it says.
struct Movement {
  std::string aggregate{};
  std::int64_t number = 0;
};
std::string to_payload(const Movement& movement);
Movement parse_payload(const std::string& payload);

}  // namespace outbox::chaos
