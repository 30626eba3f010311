#include "cli/output/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

#include "cli/errors.h"

namespace outbox::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr std::chrono::milliseconds kRedrawEvery{100};
constexpr std::size_t kBarWidth = 20;

// Before that, the speed is mere chance.
constexpr microseconds kSpeedKnownAfter{500'000};

std::string bar(std::int64_t done, std::int64_t total) {
  const auto filled =
      static_cast<std::size_t>(static_cast<double>(kBarWidth) * static_cast<double>(done) /
                               static_cast<double>(std::max<std::int64_t>(total, 1)));
  return "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '-') + "]";
}

constexpr std::size_t kUsualWidth = 80;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

bool wants_color(int descriptor) {
  return is_terminal(descriptor) && environment("NO_COLOR").empty() &&
         environment("TERM") != "dumb";
}

std::optional<std::size_t> line_width(int descriptor) {
  if (!is_terminal(descriptor)) return std::nullopt;
  winsize window{};
  if (ioctl(descriptor, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return kUsualWidth;
  return window.ws_col;
}

std::string progress_line(const std::string& doing, std::int64_t done,
                          std::optional<std::int64_t> total, microseconds running,
                          std::size_t width) {
  std::string line = doing;
  if (total) {
    // Others may add to the work while it goes on.
    total = std::max(*total, done);
    const std::int64_t percent = *total == 0 ? 100 : done * 100 / *total;
    line += " " + bar(done, *total) + "  " + grouped(done) + " of " + grouped(*total) + "  " +
            std::to_string(percent) + "%";
  } else {
    line += "  " + grouped(done);
  }
  if (done > 0 && running >= kSpeedKnownAfter) {
    const double seconds = static_cast<double>(running.count()) / 1e6;
    const double speed = static_cast<double>(done) / seconds;
    line += "  " + grouped(static_cast<std::int64_t>(speed)) + " a second";
    if (total && *total > done) {
      const double left = static_cast<double>(*total - done) / speed;
      line += "  " + short_time(microseconds(static_cast<std::int64_t>(left * 1e6))) + " left";
    }
  }
  if (line.size() > width) line.resize(width);
  return line;
}

Progress::Progress(std::ostream& out, std::optional<std::size_t> width, std::string doing,
                   std::optional<std::int64_t> total, Now now)
    : out_(out),
      width_(width),
      doing_(std::move(doing)),
      total_(total),
      now_(std::move(now)),
      started_(now_()) {}

Progress::~Progress() {
  if (drawn_) out_ << "\r\x1b[K" << std::flush;
}

void Progress::update(std::int64_t done) {
  if (!width_) return;
  const auto now = now_();
  if (drawn_ && now - *drawn_ < kRedrawEvery) return;
  drawn_ = now;
  // One column less: a full line would wrap on some terminals.
  out_ << '\r'
       << progress_line(doing_, done, total_, duration_cast<microseconds>(now - started_),
                        std::max<std::size_t>(*width_, 2) - 1)
       << "\x1b[K" << std::flush;
}

bool Console::confirm(const std::string& question, bool yes) const {
  if (yes) return true;
  if (!can_ask) {
    throw UsageError(question + " There is no terminal to confirm this at: add --yes to do it");
  }
  err << printable_lines(question) << " [y/N] " << std::flush;
  std::string answer;
  std::getline(in, answer);
  return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes";
}

Console standard_console() {
  return {.in = std::cin,
          .out = std::cout,
          .err = std::cerr,
          .color = wants_color(STDOUT_FILENO),
          .out_width = line_width(STDOUT_FILENO),
          .err_width = line_width(STDERR_FILENO),
          .can_ask = is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO)};
}

}  // namespace outbox::cli
