#include "http/routes.h"

#include <utility>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::http {

namespace {

constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;

}  // namespace

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

}  // namespace outbox::http
