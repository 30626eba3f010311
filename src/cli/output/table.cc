#include "cli/output/table.h"

#include <algorithm>

#include "base/quote.h"

namespace outbox::cli {
namespace {

constexpr std::size_t kGap = 2;

// Narrower than this, a column says nothing any more.
constexpr std::size_t kLeastWidth = 8;

}  // namespace

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = printable(cell.text);
  rows_.push_back(std::move(row));
}

std::vector<std::optional<std::size_t>> Table::widths(const TableLook& look) const {
  std::vector<std::optional<std::size_t>> widths;
  std::size_t total = 0;
  for (std::size_t n = 0; n < columns_.size(); ++n) {
    std::size_t width = 0;
    for (const auto& row : rows_) width = std::max(width, display_width(row.at(n).text));
    if (width == 0 && columns_[n].optional) {
      widths.emplace_back();
      continue;
    }
    width = std::max(width, display_width(columns_[n].title));
    total += width + (total == 0 ? 0 : kGap);
    widths.emplace_back(width);
  }
  if (!look.width) return widths;
  // Always at the expense of the widest, so that the narrow ones stay whole.
  while (total > *look.width) {
    std::size_t* widest = nullptr;
    for (std::size_t n = 0; n < columns_.size(); ++n) {
      if (!widths[n] || !columns_[n].shrinks) continue;
      if (*widths[n] <= std::max(kLeastWidth, display_width(columns_[n].title))) continue;
      if (widest == nullptr || *widths[n] > *widest) widest = &*widths[n];
    }
    if (widest == nullptr) break;
    --*widest;
    --total;
  }
  return widths;
}

void Table::print(std::ostream& out, const TableLook& look) const {
  const auto room = widths(look);
  const auto print_line = [&](const auto& cell_at) {
    std::string line;
    std::size_t blanks = 0;  // written only if something follows
    for (std::size_t n = 0; n < columns_.size(); ++n) {
      if (!room[n]) continue;
      const Cell cell = cell_at(n);
      const std::string text = cut_to_width(cell.text, *room[n]);
      const std::size_t missing = *room[n] - std::min(*room[n], display_width(text));
      if (columns_[n].right) blanks += missing;
      if (!text.empty()) {
        line.append(blanks, ' ').append(styled(text, cell.style, look.color));
        blanks = 0;
      }
      blanks += columns_[n].right ? kGap : missing + kGap;
    }
    out << line << '\n';
  };
  print_line([&](std::size_t n) { return Cell(columns_[n].title, Style::bold); });
  for (const auto& row : rows_) {
    print_line([&](std::size_t n) { return row[n]; });
  }
}

}  // namespace outbox::cli
