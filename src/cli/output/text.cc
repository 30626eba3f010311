#include "cli/output/text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/json.h"
#include "base/quote.h"
#include "base/time_text.h"
#include "base/utf8.h"

namespace outbox::cli {
namespace {

std::string with_unit(double value, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof text, value < 9.95 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

const char* code_of(Style style) {
  switch (style) {
    case Style::plain:
      break;
    case Style::bold:
      return "\x1b[1m";
    case Style::faint:
      return "\x1b[2m";
    case Style::good:
      return "\x1b[32m";
    case Style::warning:
      return "\x1b[33m";
    case Style::bad:
      return "\x1b[31m";
  }
  return "";
}

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

// Between the columns of a table.
constexpr std::size_t kGap = 2;

// Narrower than this, a column says nothing any more.
constexpr std::size_t kLeastWidth = 8;

// "[a,b]" of values that are JSON already.
template <class Values, class ToText>
std::string json_array(const Values& values, ToText to_text) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ',';
    text += to_text(value);
  }
  return text + "]";
}

// What is valid in JSON but may command a terminal, on which it may end. All of it has four
// hexadecimal digits.
std::string for_terminals(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const std::string_view character =
        json.substr(0, std::max<std::size_t>(utf8_sequence(json), 1));
    if (needs_escape(character)) {
      out += unicode_escape(character);
    } else {
      out += character;
    }
    json.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string counted(std::int64_t number, std::string_view one) {
  return grouped(number).append(" ").append(one).append(number == 1 ? "" : "s");
}

std::string short_time(std::chrono::microseconds time) {
  const auto us = static_cast<double>(time.count());
  if (us < 1'000) return std::to_string(time.count()) + " us";
  if (us < 999'500) return with_unit(us / 1'000, "ms");
  return with_unit(us / 1'000'000, "s");
}

std::string pad(std::string_view text, std::size_t width) {
  std::string result(text);
  if (result.size() < width) result.append(width - result.size(), ' ');
  return result;
}

std::string pad_left(std::string_view text, std::size_t width) {
  std::string result(text);
  if (result.size() < width) result.insert(0, width - result.size(), ' ');
  return result;
}

std::optional<std::chrono::microseconds> percentile(std::vector<std::chrono::microseconds> values,
                                                    int percent) {
  if (values.empty()) return std::nullopt;
  const std::size_t rank = (values.size() * static_cast<std::size_t>(percent) + 99) / 100;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

std::string age_text(std::chrono::microseconds age) {
  constexpr std::int64_t kSecond = 1'000'000;
  constexpr std::int64_t kHour = 3'600;  // in seconds
  constexpr std::int64_t kDay = 86'400;
  const std::int64_t seconds = age.count() / kSecond;
  if (age.count() < kSecond) return std::to_string(age.count() / 1'000) + " ms";
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 2 * kHour) return std::to_string(seconds / 60) + " min";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + " h";
  return std::to_string(seconds / kDay) + " d";
}

std::string short_time_text(Time time) {
  std::string text = time_text(time);
  constexpr std::size_t kToSeconds = 19;
  if (text.size() < kToSeconds || text[10] != 'T') return text;
  text.resize(kToSeconds);
  text[10] = ' ';
  return text;
}

std::string styled(std::string_view text, Style style, bool color) {
  if (!color || style == Style::plain || text.empty()) return std::string(text);
  return code_of(style) + std::string(text) + "\x1b[0m";
}

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

// --- Tables ---

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

// --- JSON ---

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return for_terminals(out);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    const auto byte = [&](std::size_t n) -> std::uint32_t {
      return n < group.size() ? static_cast<unsigned char>(group[n]) : 0U;
    };
    const std::uint32_t bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kDigits[bits >> 18];
    out += kDigits[bits >> 12 & 63];
    out += group.size() > 1 ? kDigits[bits >> 6 & 63] : '=';
    out += group.size() > 2 ? kDigits[bits & 63] : '=';
  }
  return out;
}

JsonObject& JsonObject::add_raw(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_.append(json_string(key)).append(":").append(json);
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  return add_raw(key, json_string(value));
}

JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return add_raw(key, std::to_string(value));
}

JsonObject& JsonObject::add(std::string_view key, bool value) {
  return add_raw(key, value ? "true" : "false");
}

JsonObject& JsonObject::add(std::string_view key, const JsonObject& value) {
  return add_raw(key, value.text());
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<JsonObject>& values) {
  return add_raw(key, json_array(values, [](const JsonObject& value) { return value.text(); }));
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<int>& values) {
  return add_raw(key, json_array(values, [](int value) { return std::to_string(value); }));
}

JsonObject& JsonObject::add(std::string_view key, Time value) {
  return add(key, std::string_view(time_text(value)));
}

JsonObject& JsonObject::add(std::string_view key, const std::optional<Time>& value) {
  return value ? add(key, *value) : add_raw(key, "null");
}

JsonObject& JsonObject::add(std::string_view key, const std::optional<std::int64_t>& value) {
  return value ? add(key, *value) : add_raw(key, "null");
}

JsonObject& JsonObject::add_or_null(std::string_view key, std::string_view value) {
  return value.empty() ? add_raw(key, "null") : add(key, value);
}

}  // namespace outbox::cli
