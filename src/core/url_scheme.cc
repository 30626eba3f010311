#include "core/url_scheme.h"

#include <algorithm>

namespace outbox {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

std::string scheme_of(std::string_view url) {
  const auto colon = url.find(':');
  if (colon == std::string_view::npos || colon < 2 || !is_letter(url.front())) return {};
  std::string scheme(url.substr(0, colon));
  const bool valid = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  if (!valid) return {};
  for (char& c : scheme) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return scheme;
}

std::string with_lower_scheme(std::string_view url) {
  const std::string scheme = scheme_of(url);
  return scheme + std::string(url.substr(scheme.size()));
}

std::string without_secrets(std::string_view text) {
  constexpr std::string_view kBegin = "://";
  const auto begin = text.find(kBegin);
  if (begin == std::string_view::npos) return std::string(text);
  return std::string(text.substr(0, begin + kBegin.size())) + "...";
}

}  // namespace outbox
