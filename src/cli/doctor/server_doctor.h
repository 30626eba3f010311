// What the command line does with PostgreSQL, MariaDB and MySQL alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/doctor/backend.h"

namespace outbox::cli {

// Whether the server's clock, given as the time since 1970, is like ours.
Finding check_clock(std::chrono::microseconds there);

// Whether an engine, which opens `needed` connections at most, still finds so many free.
// `remedy` says what to raise.
Finding check_sessions(std::int64_t left, std::int64_t most, std::int64_t needed,
                       const std::string& remedy);

// Something that a login may be for: to write, to deliver.
struct Duty {
  std::string name{};
  std::string lacks{};  // the privileges that are missing for it; empty if none
};

// A login of its own for each duty is good practice: one that can do some of them is in
// order. `who` is "the role" or "the user".
Finding check_duties(const std::string& who, const std::vector<Duty>& duties);

// A transaction of somebody else's.
struct OpenTransaction {
  std::string owner{};    // "session 7", "prepared transaction 'x'"
  bool prepared = false;  // it has no session
  std::chrono::seconds age{0};
};

// `old`: those that have been open for longer than `limit`, the oldest first. `advice` says
// what they cost and how to end them.
Finding check_snapshots(const std::vector<OpenTransaction>& old, std::chrono::seconds limit,
                        const char* advice);

// Looks at a server in the order in which its parts rest on each other, and ends early when
// what follows would only repeat the same failure. Changes nothing.
class ServerDoctor {
 public:
  virtual ~ServerDoctor() = default;

  // Finds, never throws for what it finds.
  std::vector<Finding> examine();

 protected:
  // What cannot be told by one check is no reason to leave out the others.
  struct Check {
    const char* name;
    std::function<Finding()> run;
  };

  // Connects, and adds what everything else rests on.
  virtual void check_server(std::vector<Finding>& findings) = 0;

  // What to look at in the server; then, if the tables are there, what to look at in them.
  virtual std::vector<Check> checks() = 0;
  virtual bool has_tables() = 0;
  virtual std::vector<Check> table_checks() = 0;

  // What to look at if the server cannot be examined.
  virtual const char* remedy() const = 0;
};

// What differs between the kinds of servers; the URL always has its password.
struct ServerKind {
  struct Address {
    std::string place{};       // "db.example:5432/shop"
    std::string public_url{};  // without its password
  };

  const char* name;
  Address (*address)(const std::string& url);
  SchemaStatus (*schema_status)(const std::string& url, const std::string& table);
  SchemaStatus (*migrate)(const std::string& url, const std::string& table);
  std::string (*schema_sql)(const std::string& url, const std::string& table);
  std::shared_ptr<Store> (*open)(const std::string& url, const std::string& table);
  std::vector<Finding> (*examine)(const std::string& url, const std::string& table);
  RepairSql (*repair_sql)(const std::string& table);
};

// Throws MisuseError for a URL that makes no sense.
std::unique_ptr<Backend> make_server_backend(const ServerKind& kind, std::string url,
                                             std::string table);

}  // namespace outbox::cli
