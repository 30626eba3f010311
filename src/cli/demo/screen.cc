#include "cli/demo/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "cli/output/console.h"
#include "cli/output/text.h"

namespace outbox::demo {

using cli::counted;
using cli::grouped;
using cli::pad;
using cli::pad_left;
using cli::short_time;
using cli::Style;
using cli::styled;

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // other screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

using State = RoleStatus::State;

constexpr std::size_t kAiryRows = 22;
constexpr std::size_t kWideColumns = 72;
constexpr std::size_t kMaxLogLines = 6;

// A canvas of lines that are cut at its right edge, color codes not counted.
class Canvas {
 public:
  Canvas(ScreenSize size, bool color) : size_(size), color_(color) {}

  Canvas& put(std::string_view text, Style style = Style::plain) {
    const std::string_view fits = text.substr(0, size_.columns - column_);
    column_ += fits.size();
    line_ += styled(fits, style, color_);
    return *this;
  }

  void end_line() {
    lines_.push_back(std::move(line_));
    line_.clear();
    column_ = 0;
  }

  std::string text() const {
    std::string result;
    for (std::size_t n = 0; n < std::min(lines_.size(), size_.rows); ++n) {
      if (n > 0) result += '\n';
      result += lines_[n];
    }
    return result;
  }

 private:
  const ScreenSize size_;
  const bool color_;
  std::vector<std::string> lines_;
  std::string line_;
  std::size_t column_ = 0;
};

std::string clock_text(std::chrono::seconds time) {
  const auto seconds = std::to_string(time.count() % 60);
  return std::to_string(time.count() / 60) + ':' + (seconds.size() < 2 ? "0" : "") + seconds;
}

// For each State.
struct Shown {
  const char* name;
  Style style;
};
constexpr std::array<Shown, 6> kStates{{{"waiting", Style::warning},
                                        {"starting", Style::warning},
                                        {"up", Style::good},
                                        {"restarting", Style::warning},
                                        {"broken", Style::bad},
                                        {"stopped", Style::faint}}};

// For each Role.
constexpr std::array kJobs{"commits orders, rolls one in ten back", "reads the outbox, delivers",
                           "acknowledges, keeps its own ledger"};

std::string job_of(Role role, const RoleStatus& status, bool draining) {
  if (status.state == State::broken) return "killed: the events wait; press b to heal it";
  if (role == Role::writer && draining) return "the shop is closed";
  std::string job = kJobs.at(static_cast<std::size_t>(role));
  if (status.restarts == 0) return job;
  return job + "; back " + counted(status.restarts, "time");
}

void draw_roles(Canvas& canvas, const View& view) {
  for (const Role role : kRoles) {
    const RoleStatus& status = view.roles.at(static_cast<std::size_t>(role));
    const Shown& state = kStates.at(static_cast<std::size_t>(status.state));
    canvas.put(" " + pad(to_string(role), 12))
        .put(pad_left(status.pid == 0 ? "-" : std::to_string(status.pid), 8) + "  ")
        .put(pad(state.name, 12), state.style)
        .put(job_of(role, status, view.draining), Style::faint)
        .end_line();
  }
}

void draw_row(Canvas& canvas, const char* name, const std::string& value, const std::string& note,
              Style style = Style::plain) {
  canvas.put(" " + pad(name, 12))
      .put(pad_left(value, 10), style)
      .put("   " + note, Style::faint)
      .end_line();
}

std::string bar(std::int64_t pending) {
  constexpr std::int64_t kEventsAHash = 20;
  constexpr std::int64_t kMostHashes = 40;
  const std::int64_t hashes = std::min((pending + kEventsAHash - 1) / kEventsAHash, kMostHashes);
  return std::string(static_cast<std::size_t>(hashes), '#');
}

void draw_figures(Canvas& canvas, const Figures& figures) {
  const auto a_second = [](std::int64_t rate) { return pad_left(grouped(rate), 6) + " a second"; };
  draw_row(canvas, "committed", grouped(figures.committed), a_second(figures.commit_rate),
           Style::bold);
  draw_row(canvas, "rolled back", grouped(figures.rolled_back), "must never be delivered");
  draw_row(canvas, "delivered", grouped(figures.delivered), a_second(figures.delivery_rate),
           Style::bold);
  draw_row(canvas, "pending", grouped(figures.pending), bar(figures.pending),
           figures.pending > 100 ? Style::warning : Style::plain);
  draw_row(canvas, "duplicates", grouped(figures.duplicates),
           figures.duplicates == 0 ? "" : "after a kill; recognised by id");
  draw_row(canvas, "lost", "?", "counted at the end, from both ledgers");
}

void draw_latency(Canvas& canvas, const Figures& figures) {
  const auto time = [](const auto& value) { return value ? short_time(*value) : "-"; };
  canvas.put(" " + pad("latency", 12))
      .put("p50 " + pad(time(figures.p50), 9) + "p99 " + pad(time(figures.p99), 9), Style::bold)
      .put("commit to receipt, last 3 seconds", Style::faint)
      .end_line();
}

void draw_keys(Canvas& canvas, const View& view, bool narrow) {
  if (view.draining) {
    canvas.put(" Delivering what is left, then the verdict. ", Style::warning)
        .put("Ctrl-C", Style::bold)
        .put(" stops waiting")
        .end_line();
    return;
  }
  const bool broken =
      view.roles.at(static_cast<std::size_t>(Role::receiver)).state == State::broken;
  const auto key = [&](const char* name, const std::string& verb, const char* rest) {
    canvas.put(" ").put(name, Style::bold).put(" " + verb + (narrow ? "" : rest) + "  ");
  };
  key("b", broken ? "heal" : "break", " the receiver");
  key("k", "kill -9", " the dispatcher");
  key("q", "quit", " and judge");
  canvas.end_line();
}

void draw_log(Canvas& canvas, const View& view, std::size_t lines) {
  if (view.log.empty()) canvas.put(" log  quiet so far", Style::faint).end_line();
  const std::size_t first = view.log.size() - std::min(view.log.size(), lines);
  for (std::size_t n = first; n < view.log.size(); ++n) {
    const auto at = std::max(view.log[n].at - view.started, Moment::duration::zero());
    canvas
        .put(" " + pad(clock_text(std::chrono::duration_cast<std::chrono::seconds>(at)), 5),
             Style::faint)
        .put(view.log[n].text)
        .end_line();
  }
}

// `check`: what is said of a number that must be zero; three columns wide.
std::string row(const char* name, std::size_t n, const std::string& check, const char* note) {
  return "  " + pad(name, 14) + pad_left(grouped(static_cast<std::int64_t>(n)), 9) + "  " + check +
         "  " + note + '\n';
}

std::string duplicates_line(const Verdict& verdict) {
  const std::string duplicates =
      counted(static_cast<std::int64_t>(verdict.events.duplicates), "duplicate");
  if (verdict.kills == 0) {
    return verdict.events.duplicates == 0
               ? "No duplicates: without a fault every event is delivered once."
               : duplicates + " although nothing was killed: that must not happen.";
  }
  const std::string after = duplicates + " after " + counted(verdict.kills, "kill");
  return verdict.events.duplicates == 0
             ? after + "."
             : after + ": at-least-once; the receiver recognised them by id.";
}

}  // namespace

std::string render(const View& view, ScreenSize size, bool color) {
  Canvas canvas(size, color);
  canvas.put(" outbox demo", Style::bold)
      .put("   " + clock_text(view.running) + "   three processes, one SQLite file", Style::faint)
      .end_line();
  // A small screen keeps what matters: no air, and the keys before the log.
  const bool airy = size.rows >= kAiryRows;
  const auto air = [&] {
    if (airy) canvas.end_line();
  };
  air();
  draw_roles(canvas, view);
  air();
  draw_figures(canvas, view.figures);
  air();
  draw_latency(canvas, view.figures);
  air();
  draw_keys(canvas, view, size.columns < kWideColumns);
  air();
  draw_log(canvas, view, airy ? std::min(size.rows - kAiryRows + 1, kMaxLogLines) : 1);
  air();
  canvas.put(" file " + view.database + "   seed " + std::to_string(view.seed), Style::faint)
      .end_line();
  return canvas.text();
}

std::string progress_line(std::chrono::seconds running, const Figures& figures) {
  std::string line = pad_left(std::to_string(running.count()), 4) + " s  committed " +
                     pad_left(grouped(figures.committed), 7) + "  rolled back " +
                     pad_left(grouped(figures.rolled_back), 5) + "  delivered " +
                     pad_left(grouped(figures.delivered), 7) + "  pending " +
                     pad_left(grouped(figures.pending), 5);
  if (figures.p50 && figures.p99) {
    line += "  p50 " + pad_left(short_time(*figures.p50), 6) + "  p99 " +
            pad_left(short_time(*figures.p99), 6);
  }
  return line;
}

Terminal::Terminal() {
  tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // keys() must not wait.
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_out(kEnter);
}

Terminal::~Terminal() {
  write_out(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

ScreenSize Terminal::size() {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
    return {};
  }
  return {.columns = window.ws_col, .rows = window.ws_row};
}

void Terminal::draw(std::string_view text) {
  // In one write, line by line over the old picture: clearing it first flickers.
  std::string picture(kHome);
  while (true) {
    const auto end = text.find('\n');
    // Before the text: behind a full line it would take the last character away.
    picture += kClearLine;
    picture += text.substr(0, end);
    if (end == std::string_view::npos) break;
    picture += "\r\n";
    text.remove_prefix(end + 1);
  }
  picture += kClearBelow;
  write_out(picture);
}

std::string Terminal::keys() {
  char buffer[64];
  const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : std::string();
}

bool has_terminal() { return cli::is_terminal(STDIN_FILENO) && cli::is_terminal(STDOUT_FILENO); }

// --- The verdict ---

Verdict judge(const RunRecord& record) {
  // Without a fault, every event is delivered once.
  const std::size_t bound = record.kills > 0 ? record.receipts.size() : 0;
  return {.events = harness::judge(record.orders, record.receipts,
                                   {.duplicate_bound = bound, .pending = record.pending}),
          .rolled_back = record.rolled_back,
          .kills = record.kills,
          .unexpected_exits = record.unexpected_exits};
}

std::string to_text(const Verdict& verdict, bool color) {
  const harness::Verdict& events = verdict.events;
  const auto any = [](const char* name, std::size_t n, const char* note) {
    return row(name, n, pad("", 3), note);
  };
  // Padded before it is painted: the codes have no width.
  const auto zero = [color](const char* name, std::size_t n, const char* note) {
    return row(name, n,
               n == 0 ? styled(pad("ok", 3), Style::good, color)
                      : styled(pad("BAD", 3), Style::bad, color),
               note);
  };
  std::string text =
      any("committed", events.committed, "orders, each with its event in one transaction") +
      any("rolled back", verdict.rolled_back, "on purpose; must never be delivered") +
      any("delivered", events.delivered + events.ghosts,
          "distinct events in the receiver's ledger") +
      any("duplicates", events.duplicates, "repeated deliveries") +
      zero("lost", events.lost, "committed, but never delivered") +
      zero("ghosts", events.ghosts, "delivered, but never committed") +
      zero("order breaks", events.order_breaks, "overtook an older order of the same customer") +
      '\n' + duplicates_line(verdict) + '\n';
  if (events.pending > 0) {
    text += counted(static_cast<std::int64_t>(events.pending), "event") +
            " still waited in the outbox when the demo stopped waiting for them.\n";
  }
  if (events.garbled > 0) {
    text += counted(static_cast<std::int64_t>(events.garbled), "event") +
            " arrived with other contents than were committed.\n";
  }
  if (!verdict.unexpected_exits.empty()) {
    text += counted(static_cast<std::int64_t>(verdict.unexpected_exits.size()), "process death") +
            " that nobody ordered, the first: " + verdict.unexpected_exits.front() + ".\n";
  }
  if (verdict.good()) text += "Nothing lost, no ghosts, every customer's orders in order.\n";
  return text;
}

}  // namespace outbox::demo
