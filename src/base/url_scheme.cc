#include "base/url_scheme.h"

#include <algorithm>
#include <array>

namespace outbox {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Where the value of the first setting begins that is a secret by its name: password,
// sslpassword, passwd, pwd, and key, hexkey, textkey of encrypted files. npos if there is none.
std::size_t password_value(std::string_view text) {
  constexpr std::array<std::string_view, 4> kNames{"password", "passwd", "pwd", "key"};
  constexpr std::size_t kLongest = 8;
  for (std::size_t equals = text.find('='); equals != std::string_view::npos;
       equals = text.find('=', equals + 1)) {
    const std::string_view before =
        text.substr(0, text.substr(0, equals).find_last_not_of(' ') + 1);
    std::string name(before.substr(before.size() - std::min(before.size(), kLongest)));
    std::transform(name.begin(), name.end(), name.begin(), lower);
    const bool secret = std::any_of(kNames.begin(), kNames.end(),
                                    [&](std::string_view known) { return name.ends_with(known); });
    if (secret) return equals + 1;
  }
  return std::string_view::npos;
}

}  // namespace

std::string scheme_of(std::string_view url) {
  const auto colon = url.find(':');
  if (colon == std::string_view::npos || colon < 2 || !is_letter(url.front())) return {};
  std::string scheme(url.substr(0, colon));
  const bool valid = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  if (!valid) return {};
  std::transform(scheme.begin(), scheme.end(), scheme.begin(), lower);
  return scheme;
}

std::string with_lower_scheme(std::string_view url) {
  const std::string scheme = scheme_of(url);
  return scheme + std::string(url.substr(scheme.size()));
}

bool has_password_setting(std::string_view text) {
  return password_value(text) != std::string_view::npos;
}

std::string without_secrets(std::string_view text) {
  constexpr std::string_view kBegin = "://";
  std::size_t end = text.size();
  const auto cut = [&](std::size_t at, std::size_t keep) {
    if (at != std::string_view::npos) end = std::min(end, at + keep);
  };
  const auto begin = text.find(kBegin);
  const auto colon = text.find(':');
  cut(begin, kBegin.size());
  cut(password_value(text), 0);
  const bool login = colon != text.npos && text.find('@', colon) != text.npos;
  if (login && colon != begin) cut(colon, 1);
  if (end == text.size()) return std::string(text);
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace outbox
