// The streams of a command, what is behind them, and what is drawn on a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "base/quote.h"
#include "cli/output/text.h"

namespace outbox::cli {

bool is_terminal(int descriptor);

// Whether text may be colored there: a terminal, and neither NO_COLOR nor
// TERM=dumb asks us not to.
bool wants_color(int descriptor);

// How many characters fit on a line; none if it is no terminal.
std::optional<std::size_t> line_width(int descriptor);

// --- Long work ---

// The line that is shown, at most `width` columns of ASCII:
//   replaying [#########-----------]  1,234 of 2,500  49%  410 a second  3.1 s left
// Without a total it counts.
std::string progress_line(const std::string& doing, std::int64_t done,
                          std::optional<std::int64_t> total, std::chrono::microseconds running,
                          std::size_t width);

// Draws that line over and over in one place, ten times a second at most, and
// takes it away at the end. Does nothing without a terminal. Not thread-safe.
class Progress {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  // `width`: of the terminal behind `out`; absent if it is none.
  Progress(std::ostream& out, std::optional<std::size_t> width, std::string doing,
           std::optional<std::int64_t> total, Now now = std::chrono::steady_clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done);

 private:
  std::ostream& out_;
  const std::optional<std::size_t> width_;
  const std::string doing_;
  const std::optional<std::int64_t> total_;
  const Now now_;
  const std::chrono::steady_clock::time_point started_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
};

// --- The console ---

// Answers go to `out`; everything that is said about them, to `err`, so that a
// program that reads the answers is not disturbed. Not thread-safe.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;

  bool color = false;                      // on `out`
  std::optional<std::size_t> out_width{};  // of a terminal
  std::optional<std::size_t> err_width{};  // of a terminal
  bool can_ask = false;                    // somebody sees `err` and types into `in`

  std::string paint(std::string_view text, Style style) const { return styled(text, style, color); }
  void print(const Table& table) const { table.print(out, {.width = out_width, .color = color}); }
  void print(const JsonObject& object) const { out << object.text() << '\n'; }

  // Notes for people, on lines of their own. What they quote commands no terminal.
  void say(std::string_view text) const { err << printable_lines(text) << '\n'; }

  // Asks before something is destroyed; only "y" and "yes" mean yes. With
  // `yes` it does not ask. Throws UsageError if there is nobody to ask.
  bool confirm(const std::string& question, bool yes) const;

  // For long work.
  Progress progress(std::string doing, std::optional<std::int64_t> total) const {
    return {err, err_width, std::move(doing), total};
  }
};

// The console of this process.
Console standard_console();

}  // namespace outbox::cli
