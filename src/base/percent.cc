#include "base/percent.h"

#include <charconv>

namespace outbox {

std::string percent_encoded(std::string_view text) {
  static constexpr std::string_view kHarmless = "-._~,/";
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (alphanumeric || kHarmless.find(c) != std::string_view::npos) {
      result += c;
    } else {
      result.append("%").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    }
  }
  return result;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    if (text.front() != '%') {
      result += text.front();
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < 3) return std::nullopt;
    unsigned char byte = 0;
    const char* end = text.data() + 3;
    if (std::from_chars(text.data() + 1, end, byte, 16).ptr != end) return std::nullopt;
    result += static_cast<char>(byte);
    text.remove_prefix(3);
  }
  return result;
}

}  // namespace outbox
