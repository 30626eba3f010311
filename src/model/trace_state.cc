#include "model/trace_state.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace outbox {
namespace {

constexpr std::size_t kMaxMembers = 32;
constexpr std::size_t kMaxLength = 256;  // of a key, of a value
constexpr std::size_t kMaxTenant = 241;
constexpr std::size_t kMaxSystem = 14;

bool is_lower(char c) { return 'a' <= c && c <= 'z'; }
bool is_digit(char c) { return '0' <= c && c <= '9'; }

bool is_key_char(char c) {
  return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
}

bool is_value_char(char c) { return ' ' <= c && c <= '~' && c != ',' && c != '='; }

bool is_name(std::string_view text, std::size_t max, bool digit_first) {
  return !text.empty() && text.size() <= max &&
         (is_lower(text.front()) || (digit_first && is_digit(text.front()))) &&
         std::all_of(text.begin(), text.end(), is_key_char);
}

bool is_key(std::string_view key) {
  const std::size_t at = key.find('@');
  if (at == key.npos) return is_name(key, kMaxLength, false);
  return is_name(key.substr(0, at), kMaxTenant, true) &&
         is_name(key.substr(at + 1), kMaxSystem, false);
}

bool is_value(std::string_view value) {
  return !value.empty() && value.size() <= kMaxLength && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(), is_value_char);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

bool is_trace_state(std::string_view text) {
  std::array<std::string_view, kMaxMembers> keys;
  std::size_t members = 0;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view member = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (member.empty()) continue;  // allowed, and counted by nobody

    const std::size_t equals = member.find('=');
    if (equals == member.npos || members == kMaxMembers) return false;
    const std::string_view key = member.substr(0, equals);
    if (!is_key(key) || !is_value(member.substr(equals + 1))) return false;
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(members);
    if (std::find(keys.begin(), end, key) != end) return false;
    keys[members++] = key;
  }
  return members > 0;
}

}  // namespace outbox
