#include "cli/output/width.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace outbox::cli {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// The blocks that matter in names and messages; not all of Unicode's tables.
constexpr std::array kWide{
    Range{0x1100, 0x115f},   Range{0x2e80, 0x303e},   Range{0x3041, 0x33ff},
    Range{0x3400, 0x4dbf},   Range{0x4e00, 0x9fff},   Range{0xa000, 0xa4cf},
    Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},   Range{0xfe30, 0xfe6f},
    Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},   Range{0x1f300, 0x1f64f},
    Range{0x1f900, 0x1f9ff}, Range{0x20000, 0x3fffd},
};
constexpr std::array kWithoutWidth{
    Range{0x0300, 0x036f}, Range{0x200b, 0x200f}, Range{0x20d0, 0x20ff},
    Range{0xfe00, 0xfe0f}, Range{0xfe20, 0xfe2f},
};

template <std::size_t N>
bool among(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](Range range) { return range.first <= c && c <= range.last; });
}

char32_t decode(std::string_view sequence) {
  const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(sequence[n]); };
  constexpr std::array<unsigned, 5> kLeadBits{0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t c = byte(0) & kLeadBits.at(sequence.size());
  for (std::size_t n = 1; n < sequence.size(); ++n) c = (c << 6) | (byte(n) & 0x3fU);
  return c;
}

// The first character of the text: its bytes and its columns.
struct Character {
  std::size_t bytes;
  std::size_t width;
};

Character first_of(std::string_view text) {
  const std::size_t bytes = utf8_sequence(text);
  if (bytes == 0) return {1, 1};
  const char32_t c = decode(text.substr(0, bytes));
  if (among(kWithoutWidth, c)) return {bytes, 0};
  return {bytes, among(kWide, c) ? std::size_t{2} : std::size_t{1}};
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_of(text);
    width += character.width;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t used = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const Character character = first_of(text.substr(end));
    if (used + character.width > width - 1) break;
    used += character.width;
    end += character.bytes;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string pad_to_width(std::string_view text, std::size_t width, bool before) {
  const std::size_t present = display_width(text);
  const std::string spaces(width > present ? width - present : 0, ' ');
  return before ? spaces + std::string(text) : std::string(text) + spaces;
}

}  // namespace outbox::cli
