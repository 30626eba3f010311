// The three streams of a command, and what is behind them.
#pragma once

#include <cstddef>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "base/quote.h"
#include "cli/output/json.h"
#include "cli/output/progress.h"
#include "cli/output/style.h"
#include "cli/output/table.h"

namespace outbox::cli {

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
