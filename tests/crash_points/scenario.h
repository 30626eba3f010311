// What the processes do that die, and those that come after them.
#pragma once

#include <optional>
#include <string>

#include "database.h"
#include "faulty_store.h"

namespace outbox::crash_points {

// The books of the run, in its folder.
std::string ledger_path(const std::string& folder);    // what was delivered
std::string attempts_path(const std::string& folder);  // what was to be committed

// What a process works with.
struct Work {
  chaos::Database& database;
  std::string folder;
  int process = 0;

  // To test the test: faults of the store that delivers, and an application that writes the
  // business row in another transaction than its event.
  std::optional<chaos::Faults> faults{};
  bool two_transactions = false;
};

// Transactions of several kinds, each a business row and an event for each of its events: by
// the library, of several events, with a part rolled back, on the user's own connection.
void write_some(const Work& work);

// Reads, delivers and acknowledges all that is pending. Throws std::runtime_error if that is
// not over in time.
void deliver_all(const Work& work);

// What comes after a death: waits until the database has ended what the dead one began, goes on
// to write, and delivers the rest.
void finish(const Work& work);

}  // namespace outbox::crash_points
