// Requests and responses as handlers see them, and which handler answers which request.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/target.h"
#include "outbox/clock.h"

namespace outbox::http {

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
  // pair is taken, or an argument makes no sense.
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
