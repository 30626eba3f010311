// The shop of the demo: where it works, its database with a table of orders beside the outbox,
// and what each of its processes does and tells.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "harness/process.h"
#include "harness/verdict.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"

namespace outbox::demo {

// --- The place ---

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

// Opens the shop's database and creates what is missing in it; silently, unless there is a log.
std::shared_ptr<Store> open_shop(
    const RunDirectory& directory, Logger log = [](const LogRecord&) {});

// All orders that were committed; the aggregate is the customer, whose orders count from 1.
std::vector<harness::Committed> orders(Store& store);

// The ids of events that are still to be delivered.
std::unordered_set<std::string> pending_events(Store& store);

// --- The processes ---
//
// Each is the outbox binary itself, started with a hidden command: demo-writer,
// demo-dispatcher or demo-receiver.

using harness::Role;

struct RunOptions {
  RunDirectory directory{};
  std::uint64_t seed = 1;
  int rate = 200;  // orders a second

  // The receiver acknowledges one order without writing it down, so that a test can see the
  // verdict find it out.
  bool forget_one = false;
};

// Commits orders and rolls some back; delivers the events to the receiver; or writes down what
// arrives. Until SIGTERM.
void run(Role role, const RunOptions& options);

// --- What they tell ---

// A moment on the monotonic clock, which all processes of a host share.
using Moment = std::chrono::steady_clock::time_point;

// A line on the standard output of a process, for the one that started it.
struct Report {
  enum class Kind : std::uint8_t {
    ready,        // has started and does its work
    committed,    // an order
    rolled_back,  // an order
    received,     // an order for the first time
    duplicate,    // an order that the receiver knew already
    log,
  };

  Kind kind = Kind::log;
  std::string id{};    // of the order
  Moment at{};         // when it was committed or arrived
  std::string text{};  // of the log

  std::string line() const;

  // A line that is none of ours, such as a last word on standard error, is a
  // line of the log.
  static Report parse(std::string_view line);

  friend bool operator==(const Report&, const Report&) = default;
};

// To standard output: all of it, in spite of signals and short writes; what nobody reads any
// more is dropped.
void write_out(std::string_view text);

}  // namespace outbox::demo
