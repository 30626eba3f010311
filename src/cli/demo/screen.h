// What the demo shows: its live view and the terminal on which it is drawn, its figures line by
// line, and its verdict.
#pragma once

#include <termios.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "cli/demo/supervisor.h"
#include "harness/receiver.h"
#include "harness/verdict.h"

namespace outbox::demo {

// Everything that the screen shows.
struct View {
  Moment started{};
  std::chrono::seconds running{0};
  std::array<RoleStatus, kRoles.size()> roles{};
  Figures figures{};
  std::vector<LogLine> log{};  // the newest last
  std::string database{};
  std::uint64_t seed = 0;
  bool draining = false;  // no more orders: what is left is being delivered
};

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// The lines of the view, none wider than the screen and not more than fit,
// each ended by a newline but the last. ASCII, plus color codes if wanted.
std::string render(const View& view, ScreenSize size, bool color);

// The figures on one line, for those who have no screen.
std::string progress_line(std::chrono::seconds running, const Figures& figures);

// Takes the terminal over while it lives and leaves it as it was. Not
// thread-safe.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static ScreenSize size();

  // Replaces what is on the screen.
  void draw(std::string_view text);

  // The keys that were pressed.
  std::string keys();

 private:
  termios before_{};
};

// Whether both ends of a conversation with a user are there.
bool has_terminal();

// --- The verdict ---

// What each side wrote down for itself, and the faults that it was put to.
struct RunRecord {
  std::vector<harness::Committed> orders{};     // from the shop's table
  std::size_t rolled_back = 0;                  // from the writer's ledger
  std::vector<harness::Message> receipts{};     // in order, repeats included
  std::unordered_set<std::string> pending{};    // ids that were still to be delivered
  int kills = 0;                                // of the dispatcher and the receiver
  std::vector<std::string> unexpected_exits{};  // deaths that were not ordered
};

struct Verdict {
  harness::Verdict events{};  // of the orders
  std::size_t rolled_back = 0;
  int kills = 0;
  std::vector<std::string> unexpected_exits{};

  bool good() const { return events.clean() && unexpected_exits.empty(); }
};

Verdict judge(const RunRecord& record);

// The table and what follows from it, in several lines.
std::string to_text(const Verdict& verdict, bool color);

}  // namespace outbox::demo
