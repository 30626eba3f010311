#include "http/message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/quote.h"
#include "outbox/error.h"
#include "outbox/spi/json_codec.h"

namespace outbox::http {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;

}  // namespace

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
