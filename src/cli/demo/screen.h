// The demo's live view, drawn into a string.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/demo/crew.h"
#include "cli/demo/tally.h"

namespace outbox::demo {

// Everything that the screen shows.
struct View {
  std::chrono::seconds running{0};
  std::array<CrewMember, kPosts.size()> crew{};
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

}  // namespace outbox::demo
