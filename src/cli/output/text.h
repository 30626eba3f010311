// The forms of answers: numbers, times, columns and tables as people read them, in color where it
// is wanted; and JSON for programs, one object a line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outbox/clock.h"

namespace outbox::cli {

// 1234567 as "1,234,567".
std::string grouped(std::int64_t number);

// "1 event", "1,234 events".
std::string counted(std::int64_t number, std::string_view one);

// "850 us", "1.4 ms", "23 ms", "1.3 s".
std::string short_time(std::chrono::microseconds time);

// Spaces behind or before the text, up to the width.
std::string pad(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

// The least value that `percent` of all values do not exceed; none of none.
std::optional<std::chrono::microseconds> percentile(std::vector<std::chrono::microseconds> values,
                                                    int percent);

// "3 s", "14 min", "5 h", "12 d": how long something has lasted, in one unit.
std::string age_text(std::chrono::microseconds age);

// "2026-03-01 12:00:00", for tables; times are UTC.
std::string short_time_text(Time time);

enum class Style : std::uint8_t { plain, bold, faint, good, warning, bad };

// The text in the style, or as it is if color is not wanted.
std::string styled(std::string_view text, Style style, bool color);

// Columns that printable UTF-8 takes: two for a wide character (most of East
// Asia, emoji), none for one that combines with the one before it.
std::size_t display_width(std::string_view text);

// The text if it fits, or as much of its beginning as fits with "…" behind it.
std::string cut_to_width(std::string_view text, std::size_t width);

// --- Tables ---

struct Column {
  std::string title{};
  bool right = false;     // numbers
  bool shrinks = false;   // may be cut where the screen is too narrow
  bool optional = false;  // left out if all its cells are empty
};

struct Cell {
  Cell(std::string cell_text,
       Style cell_style = Style::plain)  // NOLINT(google-explicit-constructor)
      : text(std::move(cell_text)), style(cell_style) {}

  std::string text;
  Style style;
};

struct TableLook {
  // Cut to this width; absent: as wide as it is, for files and programs.
  std::optional<std::size_t> width{};
  bool color = false;
};

// Collects rows and prints them under their titles, with two spaces between
// the columns and none at the ends of lines. Control characters in cells come
// out as escapes. Not thread-safe.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  void print(std::ostream& out, const TableLook& look) const;

 private:
  // Of each column; none for one that is left out.
  std::vector<std::optional<std::size_t>> widths(const TableLook& look) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// --- JSON ---

// A JSON string, in quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

std::string base64(std::string_view bytes);

// An object, its members in the order in which they were added. Not
// thread-safe.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view value);
  JsonObject& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, int value) { return add(key, std::int64_t{value}); }
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, const JsonObject& value);
  JsonObject& add(std::string_view key, const std::vector<JsonObject>& values);
  JsonObject& add(std::string_view key, const std::vector<int>& values);

  // As "2026-03-01T12:00:00.000000Z"; null if absent.
  JsonObject& add(std::string_view key, Time value);
  JsonObject& add(std::string_view key, const std::optional<Time>& value);
  JsonObject& add(std::string_view key, const std::optional<std::int64_t>& value);

  // Null instead of an empty text: the database holds no value.
  JsonObject& add_or_null(std::string_view key, std::string_view value);

  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& add_raw(std::string_view key, std::string_view json);

  std::string members_;
};

}  // namespace outbox::cli
