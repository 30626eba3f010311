#include "http/message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/quote.h"
#include "base/url.h"
#include "base/utf8.h"
#include "outbox/error.h"
#include "outbox/spi/json_codec.h"

namespace outbox::http {
namespace {

constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr int kUriTooLong = 414;

[[noreturn]] void refuse(const std::string& message) { throw RequestError(kBadRequest, message); }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// What follows the scheme and the host of an absolute form; the text itself if it
// is in origin form.
std::string_view without_host(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t host = target.find_first_of("/?");
    if (host == 0 || target.empty()) refuse("the target of the request names no host");
    return host == std::string_view::npos ? std::string_view() : target.substr(host);
  }
  return target;
}

// The text without its escapes; `what` says in messages where it stands.
std::string decode(std::string_view text, std::string_view what) {
  std::optional<std::string> out = percent_decoded(text);
  if (!out) {
    std::size_t bad = text.find('%');
    while (percent_decoded(text.substr(bad, 3))) bad = text.find('%', bad + 1);
    refuse(std::string(what) + ": " + quote(text.substr(bad, 3)) +
           " is not a valid escape; write a percent sign as %25");
  }
  if (!is_valid_utf8(*out)) refuse(std::string(what) + ": " + quote(*out) + " is not UTF-8");
  if (out->find('\0') != std::string::npos) {
    refuse(std::string(what) + ": " + quote(*out) + " has a NUL character");
  }
  return *std::move(out);
}

// Of a query, where a plus is a space.
std::string decode_word(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return decode(spaced, "the query");
}

std::string decode_path(std::string_view raw) {
  std::string path;
  while (!raw.empty()) {
    raw.remove_prefix(1);  // the slash
    const std::string_view escaped = raw.substr(0, raw.find('/'));
    raw.remove_prefix(escaped.size());
    const std::string segment = decode(escaped, "the path");
    // Code that compares or opens paths later must not see other borders than we do.
    if (segment.find('/') != std::string::npos) refuse("the path has an escaped slash");
    if (segment == "." || segment == "..") refuse("the path has a segment \"" + segment + "\"");
    if (find_control(segment) != segment.size()) refuse("the path has a control character");
    path.append("/").append(segment);
  }
  return path;
}

std::vector<std::pair<std::string, std::string>> decode_query(std::string_view raw) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!raw.empty()) {
    const std::string_view part = raw.substr(0, raw.find('&'));
    raw.remove_prefix(std::min(part.size() + 1, raw.size()));
    if (part.empty()) continue;
    if (parameters.size() == kMaxParameters) {
      refuse("the query has more than " + std::to_string(kMaxParameters) + " parameters");
    }
    const std::string_view key = part.substr(0, part.find('='));
    const std::string_view value = part.substr(std::min(key.size() + 1, part.size()));
    parameters.emplace_back(decode_word(key), decode_word(value));
  }
  return parameters;
}

}  // namespace

std::optional<std::string> Target::find(std::string_view key) const {
  const std::vector<std::string> values = all(key);
  if (values.size() > 1) {
    refuse("the parameter " + quote(key) + " is given " + std::to_string(values.size()) +
           " times; give it once");
  }
  if (values.empty()) return std::nullopt;
  return values.front();
}

std::string Target::require(std::string_view key) const {
  const auto value = find(key);
  if (!value) refuse("the parameter " + quote(key) + " is missing");
  if (value->empty()) refuse("the parameter " + quote(key) + " is empty");
  return *value;
}

std::vector<std::string> Target::all(std::string_view key) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : parameters) {
    if (name == key) values.push_back(value);
  }
  return values;
}

Target parse_request_target(std::string_view target) {
  if (target.size() > kMaxTargetBytes) {
    throw RequestError(kUriTooLong, "the target of the request has " +
                                        std::to_string(target.size()) + " bytes; the limit is " +
                                        std::to_string(kMaxTargetBytes));
  }
  const auto cannot_stand = [](char c) { return c <= ' ' || c > '~' || c == '#'; };
  const auto bad = std::find_if(target.begin(), target.end(), cannot_stand);
  if (bad != target.end()) {
    refuse("the target of the request has the character " + quote(std::string_view(&*bad, 1)) +
           "; escape it");
  }
  std::string_view rest = without_host(target);
  const bool absolute = rest.size() != target.size();
  const std::string_view path = rest.substr(0, rest.find('?'));
  rest.remove_prefix(std::min(path.size() + 1, rest.size()));
  if (path.empty() ? !absolute : path.front() != '/') {
    refuse("the target of the request is " + quote(target) + "; it must begin with a slash");
  }
  return {.path = path.empty() ? "/" : decode_path(path), .parameters = decode_query(rest)};
}

std::optional<std::string_view> Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return std::nullopt;
}

Response error_response(int status, std::string_view message) {
  Response response{.status = status};
  // The codec writes objects of strings, and that is one.
  response.body = default_json_codec()->encode({{"error", printable(message)}}) + "\n";
  return response;
}

Routes& Routes::add(const std::string& method, const std::string& path, Handler handler) {
  if (method.empty()) throw MisuseError("a route to " + quote(path) + " needs a method");
  if (path.empty() || path.front() != '/') {
    throw MisuseError("the path " + quote(path) + " of a route must begin with a slash");
  }
  if (!handler) throw MisuseError("the route " + method + " " + quote(path) + " has no handler");
  if (!handlers_[path].try_emplace(method, std::move(handler)).second) {
    throw MisuseError("the route " + method + " " + quote(path) + " was added before");
  }
  return *this;
}

Response Routes::answer(const Request& request) const {
  const auto methods = handlers_.find(request.target.path);
  if (methods == handlers_.end()) {
    return error_response(kNotFound, "there is nothing at " + quote(request.target.path));
  }
  auto handler = methods->second.find(request.method);
  if (handler == methods->second.end() && request.method == "HEAD") {
    handler = methods->second.find("GET");
  }
  if (handler != methods->second.end()) return handler->second(request);

  std::string allowed;
  for (const auto& [method, unused] : methods->second) {
    if (!allowed.empty()) allowed += ", ";
    allowed += method;
    if (method == "GET" && !methods->second.contains("HEAD")) allowed += ", HEAD";
  }
  Response response =
      error_response(kMethodNotAllowed, quote(request.target.path) + " takes " + allowed +
                                            ", not " + quote(request.method));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

std::string http_date(Time time) {
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s, %02u %s %04d %02d:%02d:%02d GMT",
                kDays.at(std::chrono::weekday(day).c_encoding()), static_cast<unsigned>(date.day()),
                kMonths.at(static_cast<unsigned>(date.month()) - 1), static_cast<int>(date.year()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text.data();
}

}  // namespace outbox::http
