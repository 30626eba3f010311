// A database as the command line knows it before there is a Store: it may have
// no tables, or not even exist.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/doctor.h"
#include "outbox/admin/schema.h"
#include "outbox/spi/store.h"

namespace outbox::cli {

struct CheckOptions {
  bool integrity = true;  // read the whole database to see if it is sound
};

// How `outbox doctor` finds and repairs rows that contradict themselves; see check_rows().
struct RepairSql {
  static constexpr std::size_t kFound = 1'000;

  // The first kFound: event_id, and the status as an integer, or NULL.
  std::string find{};

  // Takes an event_id.
  std::string fix{};
};

// One kind of database; every kind that the binary speaks implements this, and
// the commands know nothing else. Not thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;

  // For messages; never a password.
  virtual std::string description() const = 0;

  // How to name this store on the command line, for the commands that messages
  // recommend: `--db sqlite:shop.db`; never a password.
  virtual std::string arguments() const = 0;

  // The file that the database would be in, if there is none; else, and on servers, empty.
  virtual std::string missing_file() const { return {}; }

  virtual SchemaStatus schema_status() = 0;
  // How a new table is to keep its progress, if it matters. Throw UsageError if it cannot.
  virtual SchemaStatus migrate(std::optional<Progress> progress) = 0;
  virtual std::string schema_sql(std::optional<Progress> progress) const = 0;

  // Switches a table in use to the other kind; false if it is of that kind. `say` is told what it
  // does. Throws UsageError if the database has one kind only.
  virtual bool switch_progress(Progress to, const std::function<void(const std::string&)>& say);

  // Never migrates. Throws ConfigurationError that says which command would, if
  // the tables are not there or out of date.
  virtual std::shared_ptr<Store> open() = 0;

  // What to look at in the database itself, its schema and its tables, in the order in which
  // they rest on each other; what every store can tell is not among it. Changes nothing. They
  // are for as long as the backend lives.
  virtual std::vector<Check> checks(const CheckOptions& options) = 0;

  virtual RepairSql repair_sql() const = 0;
};

// --- The databases that there are ---

// From where on something on a server is worth a warning.
struct PostgresLimits {
  // How many connections a process with an engine opens at most, by default.
  std::int64_t free_connections = 18;

  std::int64_t dead_rows = 50'000;  // and a tenth of the live ones
  std::chrono::seconds old_transaction{300};
};

struct MysqlLimits {
  std::int64_t free_connections = 17;  // likewise

  // Two payloads of 1 MiB in one statement, each written as text of twice its size, and
  // what goes with them.
  std::int64_t packet = 5 << 20;

  std::chrono::seconds idle{60};  // how long a connection may be idle at least
  std::chrono::seconds old_transaction{300};
  std::int64_t old_versions = 1'000'000;
};

// Understands the URLs of sqlite::scheme() and, where they were built in, of
// postgres::scheme() and mysql::scheme(); and a plain path, for SQLite. Opens nothing yet.
//
// Throws ConfigurationError or MisuseError for anything else; the message never
// contains more of it than the scheme, which holds no password.
std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table);

// What --db takes, for messages: "sqlite:PATH, postgresql://...".
std::string known_urls();

// Those behind it. Throw MisuseError for an invalid URL.
std::unique_ptr<Backend> make_sqlite_backend(std::string path, std::string table);
std::unique_ptr<Backend> make_postgres_backend(std::string url, std::string table,
                                               const PostgresLimits& limits = {});
std::unique_ptr<Backend> make_mysql_backend(std::string url, std::string table,
                                            const MysqlLimits& limits = {});

// --- Rows whose status and hold contradict each other ---

// The rules, the same on every database. The status is what people set, so the hold follows
// it; nothing is delivered that may have been, and nothing is deleted:
//
//   NEW, RETRY   becomes due, at its available_at or at once
//   DONE         is finished: hold NULL
//   DEAD         is finished and blocks nobody: hold NULL
//   no status    becomes DEAD, with a note in last_error; an operator may replay it
//
// Without `repair` it only says what it would do. With it, rows are changed by short
// transactions, each row only if it still contradicts itself. A row that the store refuses to
// change, or that somebody keeps locked, does not keep the others from being repaired. What
// the store throws becomes a finding.
std::vector<Finding> check_rows(Backend& backend, Store& store, bool repair);

// --- For those who implement one ---

// Throws UsageError if it is not in their rows, on a database that knows nothing else.
void check_by_row(std::optional<Progress> progress);

// Throws ConfigurationError that says what to do unless the tables are there and
// up to date.
void check_schema(const Backend& backend, const SchemaStatus& status);

// What names the store on the command line, for commands that messages recommend.
std::string store_arguments(std::string_view public_url, const std::string& table);

// The text as one word of a shell: as it is, or in single quotes.
std::string shell_word(std::string_view text);

}  // namespace outbox::cli
