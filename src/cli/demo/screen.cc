#include "cli/demo/screen.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/output/text.h"

namespace outbox::demo {

using cli::grouped;
using cli::pad;
using cli::pad_left;
using cli::short_time;

namespace {

using State = CrewMember::State;

constexpr std::size_t kAiryRows = 22;
constexpr std::size_t kWideColumns = 72;
constexpr std::size_t kMaxLogLines = 6;

enum class Style : std::uint8_t { plain, strong, faint, good, bad, warn };

const char* code_of(Style style) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::strong:
      return "\x1b[1m";
    case Style::faint:
      return "\x1b[2m";
    case Style::good:
      return "\x1b[32m";
    case Style::bad:
      return "\x1b[1;31m";
    case Style::warn:
      break;
  }
  return "\x1b[33m";
}

// A canvas of lines that are cut at its right edge, color codes not counted.
class Canvas {
 public:
  Canvas(ScreenSize size, bool color) : size_(size), color_(color) {}

  Canvas& put(std::string_view text, Style style = Style::plain) {
    const std::string_view fits = text.substr(0, size_.columns - column_);
    column_ += fits.size();
    const bool painted = color_ && style != Style::plain && !fits.empty();
    if (painted) line_ += code_of(style);
    line_ += fits;
    if (painted) line_ += "\x1b[0m";
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

Style style_of(State state) {
  if (state == State::up) return Style::good;
  if (state == State::broken) return Style::bad;
  return state == State::stopped ? Style::faint : Style::warn;
}

const char* job_of(Post post) {
  switch (post) {
    case Post::writer:
      return "commits orders, rolls one in ten back";
    case Post::dispatcher:
      return "reads the outbox, delivers";
    case Post::receiver:
      break;
  }
  return "acknowledges, keeps its own ledger";
}

std::string job_of(Post post, const CrewMember& member, bool draining) {
  if (member.state == State::broken) return "killed: the events wait; press b to heal it";
  if (post == Post::writer && draining) return "the shop is closed";
  std::string job = job_of(post);
  if (member.restarts == 0) return job;
  return job + "; back " + std::to_string(member.restarts) +
         (member.restarts == 1 ? " time" : " times");
}

void draw_crew(Canvas& canvas, const View& view) {
  for (const Post post : kPosts) {
    const CrewMember& member = view.crew.at(static_cast<std::size_t>(post));
    canvas.put(" " + pad(to_string(post), 12))
        .put(pad_left(member.pid == 0 ? "-" : std::to_string(member.pid), 8) + "  ")
        .put(pad(to_string(member.state), 12), style_of(member.state))
        .put(job_of(post, member, view.draining), Style::faint)
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
  constexpr std::int64_t kEventsAMark = 20;
  constexpr std::int64_t kUpdates = 40;
  const std::int64_t updates = std::min((pending + kEventsAMark - 1) / kEventsAMark, kUpdates);
  return std::string(static_cast<std::size_t>(updates), '#');
}

void draw_figures(Canvas& canvas, const Figures& figures) {
  const auto a_second = [](std::int64_t rate) { return pad_left(grouped(rate), 6) + " a second"; };
  draw_row(canvas, "committed", grouped(figures.committed), a_second(figures.commit_rate),
           Style::strong);
  draw_row(canvas, "rolled back", grouped(figures.rolled_back), "nobody may hear of these");
  draw_row(canvas, "delivered", grouped(figures.delivered), a_second(figures.delivery_rate),
           Style::strong);
  draw_row(canvas, "pending", grouped(figures.pending), bar(figures.pending),
           figures.pending > 100 ? Style::warn : Style::plain);
  draw_row(canvas, "duplicates", grouped(figures.duplicates),
           figures.duplicates == 0 ? "" : "after a kill; recognised by id");
  draw_row(canvas, "lost", "?", "counted at the end, from both ledgers");
}

void draw_latency(Canvas& canvas, const Figures& figures) {
  const auto time = [](const auto& value) { return value ? short_time(*value) : "-"; };
  canvas.put(" " + pad("latency", 12))
      .put("p50 " + pad(time(figures.p50), 9) + "p99 " + pad(time(figures.p99), 9), Style::strong)
      .put("commit to receipt, last 3 seconds", Style::faint)
      .end_line();
}

void draw_keys(Canvas& canvas, const View& view, bool narrow) {
  if (view.draining) {
    canvas.put(" Delivering what is left, then the verdict. ", Style::warn)
        .put("Ctrl-C", Style::strong)
        .put(" stops waiting")
        .end_line();
    return;
  }
  const bool broken = view.crew.at(static_cast<std::size_t>(Post::receiver)).state == State::broken;
  const auto key = [&](const char* name, const std::string& verb, const char* rest) {
    canvas.put(" ").put(name, Style::strong).put(" " + verb + (narrow ? "" : rest) + "  ");
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
    canvas.put(" " + pad(clock_text(view.log[n].at), 5), Style::faint)
        .put(view.log[n].text)
        .end_line();
  }
}

}  // namespace

std::string render(const View& view, ScreenSize size, bool color) {
  Canvas canvas(size, color);
  canvas.put(" outbox demo", Style::strong)
      .put("   " + clock_text(view.running) + "   three processes, one SQLite file", Style::faint)
      .end_line();
  // A small screen keeps what matters: no air, and the keys before the log.
  const bool airy = size.rows >= kAiryRows;
  const auto air = [&] {
    if (airy) canvas.end_line();
  };
  air();
  draw_crew(canvas, view);
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

}  // namespace outbox::demo
