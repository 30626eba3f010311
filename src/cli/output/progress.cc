#include "cli/output/progress.h"

#include <algorithm>
#include <utility>

#include "cli/output/figures.h"

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

}  // namespace

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

}  // namespace outbox::cli
