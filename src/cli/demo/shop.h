// Where the demo works: a directory, and in it the shop's database with its own table of orders
// beside the outbox.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "harness/verdict.h"
#include "outbox/sqlite.h"
#include "outbox/transaction.h"
#include "outbox/writer.h"

namespace outbox::demo {

// Where the processes of one demo meet.
struct RunDirectory {
  std::filesystem::path folder{};
  std::filesystem::path database{};

  std::string receipts() const { return (folder / "receipts").string(); }
  std::string rollbacks() const { return (folder / "rollbacks").string(); }
  std::string socket() const { return (folder / "receiver.sock").string(); }
};

// Makes a fresh folder for temporary files (below $TMPDIR, or /tmp) and checks
// that `database`, or shop.db in that folder if it is empty, can be created.
// Throws PermanentError that names what cannot be used.
RunDirectory make_run_directory(const std::string& database);

void remove_run_directory(const RunDirectory& directory) noexcept;

inline constexpr const char* kAggregate = "Customer";
inline constexpr const char* kEvent = "OrderPlaced";

// Opens the shop's database and creates what is missing in it.
std::shared_ptr<Store> open_shop(const std::string& path, Logger log);

// Inserts the customer's next order and its event in the transaction. Whether it happened is up to
// the transaction. Returns the event's id.
std::string place_order(Transaction& tx, const std::string& customer, int cents);

// All orders that were committed; the aggregate is the customer, whose orders count from 1.
std::vector<harness::Committed> orders(Store& store);

// The ids of events that are still to be delivered.
std::unordered_set<std::string> pending_events(Store& store);

}  // namespace outbox::demo
