// The demo's live view, and the user's terminal on which it is drawn.
#pragma once

#include <termios.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/demo/report.h"
#include "cli/demo/supervisor.h"

namespace outbox::demo {

// Everything that the screen shows.
struct View {
  std::chrono::seconds running{0};
  std::array<RoleStatus, kRoles.size()> roles{};
  Figures figures{};
  struct LogEntry {
    std::chrono::seconds at{0};  // since the start
    std::string text{};
  };
  std::vector<LogEntry> log{};  // the newest last

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

// All of it, in spite of signals and short writes.
void write_out(std::string_view text);

}  // namespace outbox::demo
