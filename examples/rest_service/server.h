// As much of an HTTP server as this service needs, on Boost.Beast. A part of the example, not of
// the library: take the one that you have.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace web {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method{};
  std::string path{};
  Pairs parameters{};  // of the query, decoded

  // Throws RequestError unless that parameter is there once, and not empty.
  std::string require(const std::string& name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  Pairs headers{};
};

// What the client did wrong: answered with the status and the message.
class RequestError : public std::runtime_error {
 public:
  RequestError(int status, const std::string& message)
      : std::runtime_error(message), status_(status) {}

  int status() const { return status_; }

 private:
  int status_;
};

// {"error":"..."}
Response error_response(int status, const std::string& message);

// By path and method. Handlers are called by several threads at once.
using Routes =
    std::map<std::string, std::map<std::string, std::function<Response(const Request&)>>>;

// Listens on the loopback, on any free port if it is 0.
class Server {
 public:
  Server(Routes routes, std::uint16_t port);
  ~Server();  // stops

  std::uint16_t port() const;

  // Waits for the handlers that run. Their answers may not be sent any more: a client that
  // hears nothing asks again.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace web
