// Requests and responses as handlers see them, what a request asks for, and which handler answers
// it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outbox/clock.h"
#include "outbox/error.h"

namespace outbox::http {

// Limits, inclusive.
inline constexpr std::size_t kMaxTargetBytes = 8'000;
inline constexpr std::size_t kMaxParameters = 100;

// A path and its query, percent-decoded: valid UTF-8 without NUL.
struct Target {
  // Begins with a slash. Has no control characters and no segment "." or "..",
  // and every slash in it was a slash in the request.
  std::string path{};

  // In the order of the request; the same key may come several times.
  std::vector<std::pair<std::string, std::string>> parameters{};

  // The value of a parameter that may be left out. Throws RequestError if it is
  // given more than once, because then nobody can tell which one is meant.
  std::optional<std::string> find(std::string_view key) const;

  // The value of a parameter that must be there and not be empty. Throws
  // RequestError that names it otherwise.
  std::string require(std::string_view key) const;

  // All values of a key, in order.
  std::vector<std::string> all(std::string_view key) const;
};

// Takes apart a target in origin form, "/events?name=Ada+L%C3%B6w&tag=a&tag=b", or
// in absolute form, "http://host/events", whose host is left out. In the query `+`
// is a space, in the path it is itself; a key without `=` has an empty value, and
// empty parts ("a=1&&b=2") are skipped.
//
// Throws RequestError: 414 if it is too long; 400 for any other form, characters
// that a target cannot have, incomplete or invalid escapes, text that is not UTF-8
// or has a NUL, a path that breaks the promises above, or too many parameters.
// Pure and thread-safe.
Target parse_request_target(std::string_view target);

// The client is to blame: answered with the status (400 to 499, or 501 and 505 for
// what this server does not speak) and the message, which the client gets to read.
// Handlers may throw it too. Any other exception is answered with a bare 500.
class RequestError final : public Error {
 public:
  RequestError(int status, const std::string& message) : Error(message), status_(status) {}

  int status() const noexcept { return status_; }

 private:
  int status_;
};

// Names and values in their order; names are compared without regard to case.
using Fields = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method{};  // as sent: "GET"
  Target target{};
  Fields headers{};
  std::string body{};

  // Requested when the server stops. A handler that waits for something should
  // then come back, because the server waits for it.
  std::stop_token stop{};

  // The first header of that name.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};

  // Besides those that the server writes itself: Date, Content-Length, Connection
  // and the like.
  Fields headers{};
};

// {"error":"..."}, which is how everything that went wrong is told.
Response error_response(int status, std::string_view message);

// Called from many threads at once, so it must be thread-safe.
using Handler = std::function<Response(const Request&)>;

// One handler for each path and method.
//
//   Routes routes;
//   routes.add("GET", "/events", [&](const Request&) { return Response{.body = list()}; });
//
// Filled before it is given to a server. Not thread-safe while it is being filled.
class Routes {
 public:
  // The path is compared as it is, without its query. Throws MisuseError if the
  // pair is taken, or an argument is invalid.
  Routes& add(const std::string& method, const std::string& path, Handler handler);

  // Calls the handler of the request; one for GET answers HEAD as well. 404 for a
  // path that nobody answers, 405 for another method. Passes on what the handler
  // throws.
  Response answer(const Request& request) const;

 private:
  std::map<std::string, std::map<std::string, Handler>, std::less<>> handlers_;  // path, method
};

// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale. Thread-safe.
std::string http_date(Time time);

}  // namespace outbox::http
