// Tables for people.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/output/text.h"

namespace outbox::cli {

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

}  // namespace outbox::cli
