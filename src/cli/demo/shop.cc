#include "cli/demo/shop.h"

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <variant>

#include "harness/receiver.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

namespace fs = std::filesystem;

// The demo writes and judges a whole shop; it must never do so in a database
// that somebody else uses.
void check_new_database(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw PermanentError(path.string() + " is a folder: --database takes the path of a file");
  }
  if (fs::exists(fs::symlink_status(path, error))) {
    throw PermanentError(path.string() +
                         " exists already, and the demo starts with a new database: remove it or "
                         "give another path with --database");
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    throw PermanentError("cannot create " + path.string() + ": there is no folder " +
                         parent.string());
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    const int reason = errno;
    throw PermanentError("cannot create " + path.string() + ": the folder " + parent.string() +
                         " is not writable for this user: " + std::strerror(reason));
  }
}

constexpr const char* kCreateOrders = R"sql(
  CREATE TABLE IF NOT EXISTS orders (
    customer TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    cents    INTEGER NOT NULL,
    event_id TEXT    NOT NULL,
    PRIMARY KEY (customer, number)
  ) WITHOUT ROWID)sql";

constexpr const char* kNextNumber =
    "SELECT COALESCE(MAX(number), 0) + 1 FROM orders WHERE customer = ?";

constexpr const char* kInsertOrder =
    "INSERT INTO orders (customer, number, cents, event_id) VALUES (?, ?, ?, ?)";

constexpr const char* kAllOrders = "SELECT event_id, customer, number FROM orders";

constexpr const char* kPendingEvents =
    "SELECT event_id FROM outbox_event WHERE hold IS NOT NULL AND status IN (0, 2)";

std::vector<ResultRow> read(Store& store, const char* sql) {
  const auto connection = store.connect();
  connection->begin();
  auto rows = connection->query(sql, {});
  connection->rollback();
  return rows;
}

}  // namespace

RunDirectory make_run_directory(const std::string& database) {
  RunDirectory directory;
  if (!database.empty()) check_new_database(database);

  const char* base = std::getenv("TMPDIR");
  const fs::path parent = base != nullptr && *base != '\0' ? base : "/tmp";
  std::string folder = (fs::absolute(parent) / "outbox-demo-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    const int reason = errno;
    throw PermanentError("cannot make a temporary folder in " + parent.string() + ": " +
                         std::strerror(reason) + "; set TMPDIR to a folder that is writable");
  }
  directory.folder = folder;
  directory.database = database.empty() ? directory.folder / "shop.db" : fs::absolute(database);
  try {
    harness::check_socket_path(directory.socket());
  } catch (const PermanentError& error) {
    remove_run_directory(directory);
    throw PermanentError(std::string(error.what()) +
                         "; set TMPDIR to a folder with a shorter path");
  }
  return directory;
}

void remove_run_directory(const RunDirectory& directory) noexcept {
  std::error_code ignored;
  fs::remove_all(directory.folder, ignored);
}

std::shared_ptr<Store> open_shop(const std::string& path, Logger log) {
  auto store = sqlite::open(path, {.log = std::move(log)});
  const auto connection = store->connect();
  connection->begin();
  connection->execute(kCreateOrders, {});
  connection->commit();
  return store;
}

std::string place_order(Transaction& tx, const std::string& customer, int cents) {
  const int number = tx.query_one<int>(kNextNumber, customer);
  std::string id = tx.write({.type = kEvent,
                             .aggregate_type = kAggregate,
                             .aggregate_id = customer,
                             .payload = json("{\"number\":" + std::to_string(number) +
                                             ",\"cents\":" + std::to_string(cents) + "}"),
                             .headers = {{"number", std::to_string(number)}}});
  tx.execute(kInsertOrder, customer, number, cents, id);
  return id;
}

std::vector<harness::Committed> orders(Store& store) {
  std::vector<harness::Committed> result;
  for (const ResultRow& row : read(store, kAllOrders)) {
    result.push_back({.id = row.get<std::string>("event_id"),
                      .aggregate = row.get<std::string>("customer"),
                      .number = row.get<std::int64_t>("number")});
  }
  return result;
}

std::unordered_set<std::string> pending_events(Store& store) {
  std::unordered_set<std::string> result;
  for (const ResultRow& row : read(store, kPendingEvents)) result.insert(row.get<std::string>(0));
  return result;
}

}  // namespace outbox::demo
