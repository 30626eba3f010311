// Lines of words: what the demo's processes tell each other.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace outbox::demo {

// Cuts the first word and the space after it off the line.
inline std::string_view next_word(std::string_view& line) {
  const auto end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

template <class Number>
std::optional<Number> to_number(std::string_view word) {
  Number number{};
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

}  // namespace outbox::demo
