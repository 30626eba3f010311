// Which handler answers which request.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "http/message.h"

namespace outbox::http {

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

}  // namespace outbox::http
