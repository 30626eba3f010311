#include "base/url.h"

#include <algorithm>
#include <array>
#include <charconv>

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

// Takes off what stands before the separator, and the separator; all if there is none.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

// Whether it could be decoded.
bool decode(std::string_view text, std::string& out) {
  std::optional<std::string> decoded = percent_decoded(text);
  if (!decoded || decoded->find('\0') != std::string::npos) return false;
  out = *std::move(decoded);
  return true;
}

bool parse_login(std::string_view text, Url& url) {
  const bool has_password = text.find(':') != std::string_view::npos;
  return decode(take_until(text, ':'), url.user.emplace()) &&
         (!has_password || decode(text, url.password.emplace()));
}

bool parse_host(std::string_view text, Url::Host& host) {
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    // A zone may begin with a % of its own.
    const std::string_view number = text.substr(1, end - 1);
    if (!decode(number, host.name)) host.name = number;
    port = text.substr(end + 1);
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    if (!decode(text.substr(0, colon), host.name)) return false;
    port = text.substr(colon);
  }
  if (port.empty()) return true;
  const char* const end = port.data() + port.size();
  const auto parsed = std::from_chars(port.data() + 1, end, host.port);
  return port.front() == ':' && parsed.ec == std::errc() && parsed.ptr == end && host.port > 0 &&
         host.port <= 65'535;
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

std::optional<Url> parse_url(std::string_view text) {
  constexpr std::string_view kBegin = "://";
  Url url{.scheme = scheme_of(text)};
  text.remove_prefix(url.scheme.size());
  if (url.scheme.empty() || !text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());

  std::string_view path = take_until(text, '?');
  std::string_view authority = take_until(path, '/');
  if (std::count(authority.begin(), authority.end(), '@') > 1 ||
      path.find_first_of("@#") != std::string_view::npos ||
      text.find_first_of("@#") != std::string_view::npos) {
    return std::nullopt;
  }
  if (authority.find('@') != std::string_view::npos &&
      !parse_login(take_until(authority, '@'), url)) {
    return std::nullopt;
  }
  do {
    if (!parse_host(take_until(authority, ','), url.hosts.emplace_back())) return std::nullopt;
  } while (!authority.empty());
  if (!decode(path, url.path)) return std::nullopt;
  url.has_deep_path = path.find('/') != std::string_view::npos;
  while (!text.empty()) {
    std::string_view value = take_until(text, '&');
    auto& [name, decoded] = url.query.emplace_back(take_until(value, '='), std::string());
    if (!decode(value, decoded)) return std::nullopt;
  }
  return url;
}

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
