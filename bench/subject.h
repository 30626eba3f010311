// What is measured: the library on a database, against the same by the C API of that
// database with as little as possible around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/spi/store.h"

namespace outbox::bench {

inline constexpr const char* kTable = "outbox_event";

// What a table is filled with.
struct LanePage {
  std::size_t rows = 0;
  std::size_t aggregates = 1'000;
  std::string hold = "0";  // an SQL expression
  int status = 0;
  Progress progress = Progress::row;  // of a new table
};

// What becomes of an event that was delivered.
enum class Finish { update, remove };

struct Opening {
  Finish finish = Finish::update;
  Progress progress = Progress::row;  // of a new table; one that is there has its own
  bool notify = true;                 // tell other processes of commits, where the writer has to
  bool insert_at_commit = false;      // where there are round trips to save
};

// How much of the database a poll has to do with.
struct Visited {
  std::string what{};
  double count = 0;
};

// The library's own INSERT, prepared once, in a transaction of its own. Used by one
// thread at a time.
class BareWriter {
 public:
  virtual ~BareWriter() = default;
  virtual void write(std::uint64_t number) = 0;
};

// A connection. Used by one thread at a time.
class BareConnection {
 public:
  virtual ~BareConnection() = default;
  virtual void exec(const std::string& sql) const = 0;
};

// What some databases have and others have not: the benchmarks of it are for those
// that have it.
enum class Trait {
  embedded,
  server,            // for many instances and writers; a statement is a round trip
  insert_at_commit,  // see Opening
  notify,
  server_cpu,  // its processes run here
  position,    // Progress::position
};

// What the figures have to reach, where stores differ.
struct Bars {
  double drain_keep = 0;                // of the limit
  double drain_delete = 0;              // of its limit
  double drain_naive = 0;               // of the naive loop
  double position = 0;                  // a drain by position, of one by row
  double row_claims_naive = 0;          // by 4 instances
  double write = 0;                     // of the bare writer
  std::optional<double> ordered_p50{};  // us
  std::optional<double> unordered_p50{};
  std::optional<double> process_p50{};
  std::optional<double> steady_process_p50{};  // at 500 events a second
  std::optional<double> steady_process_p99{};
  std::optional<double> in_process_p99{};
};

// Databases have names. One is closed if nobody is connected to it. Thread-safe.
class Subject {
 public:
  virtual ~Subject() = default;

  virtual std::string name() const = 0;
  virtual std::vector<Trait> traits() const = 0;
  virtual Bars bars() const = 0;

  // How many transactions may write at the same time, to be measured.
  virtual std::vector<std::size_t> writers() const = 0;

  // Where and how it is measured, for the head of the report.
  virtual std::string about() = 0;

  // A new database, without tables.
  virtual std::string fresh() = 0;

  // A copy of a closed database that has reached the disk, so that the commits
  // measured next do not pay for it.
  virtual std::string copy(const std::string& database) = 0;

  virtual void remove(const std::string& database) = 0;

  // Makes the tables if need be (by the library itself), and adds rows to them.
  virtual void fill(const std::string& database, const LanePage& filling) = 0;

  // What the database does by itself some time after that.
  virtual void tidy_up(const std::string& database) = 0;

  virtual std::shared_ptr<Store> open(const std::string& database, Opening opening = {}) = 0;

  // The time that the processes of the server have worked, in seconds; 0 if that cannot be told.
  virtual double server_cpu() { return 0; }

  virtual std::unique_ptr<BareConnection> connect(const std::string& database) = 0;

  // Makes the tables if need be.
  virtual std::unique_ptr<BareWriter> writer(const std::string& database) = 0;

  // How one would write it first: claim 100 rows by an UPDATE, then update each by an
  // UPDATE of its own, which commits by itself. Delivers `events` of those pending;
  // how many seconds it took.
  virtual double drain_naive(const std::string& database, std::size_t events) = 0;

  // As fast as one thread can go with the same durability: SELECT the columns that
  // the library selects, 500 rows at a time, and finish them by one statement in one
  // transaction. Seconds for all that is pending.
  virtual double drain_limit(const std::string& database, std::size_t events, Finish finish) = 0;

  // The same where progress is kept by position: the position is stored every 1,000 events.
  virtual double drain_position_limit(const std::string& database, std::size_t events) = 0;

  // How many bytes the database has written to its log so far.
  virtual double logged(const std::string& database) = 0;

  // By a poll of so many rows from the lowest on: of what is ready, and of what is due.
  // `poll` does one by the library, for those who can count meanwhile; nothing else runs.
  virtual std::vector<Visited> visited(const std::string& database, std::size_t rows,
                                       const std::function<void()>& poll) = 0;
};

std::unique_ptr<Subject> sqlite_subject();

// On the server that OUTBOX_TEST_POSTGRES names.
std::unique_ptr<Subject> postgres_subject();

// On the server, MariaDB or MySQL, that OUTBOX_TEST_MYSQL names.
std::unique_ptr<Subject> mysql_subject();

}  // namespace outbox::bench
