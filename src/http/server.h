// A small HTTP/1.1 server for what an operator or a service of a few endpoints needs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "http/message.h"
#include "outbox/log.h"

namespace outbox::http {

struct ServerOptions {
  // There is no TLS and nobody is asked who they are: keep it on the loopback, or
  // behind a proxy that sees to both.
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any that is free; see Server::port()

  // How many handlers may run at once. Other requests wait for their turn.
  int workers = 4;

  // One more is answered with 503. Each holds at most a header, a body and a
  // response in memory.
  std::size_t max_connections = 128;

  // More is answered with 431 and 413, before it is in memory.
  std::size_t max_header_bytes = std::size_t{16} * 1024;
  std::size_t max_body_bytes = std::size_t{1024} * 1024;

  // From the first byte of a request to its last; afterwards 408.
  std::chrono::milliseconds request_timeout{30'000};
  // How long a client may keep a connection without a request.
  std::chrono::milliseconds idle_timeout{60'000};
  // How long a client may take to receive a response.
  std::chrono::milliseconds response_timeout{30'000};

  // How long stop() lets responses be sent before it cuts connections.
  std::chrono::milliseconds drain_timeout{5'000};

  Logger log{};  // empty: standard_error_log()
};

// Serves the routes from its construction on, until it is stopped.
//
//   Routes routes;
//   routes.add("GET", "/livez", [](const Request&) { return Response{.body = "{}"}; });
//   Server server{std::move(routes), {.port = 8080}};
//
// One thread does all reading, writing and timing; handlers run on others, so a slow
// handler keeps nobody from being refused, timed out or told to wait. Connections are
// kept alive; pipelined requests are answered one after the other.
//
// What is wrong with a request is answered as {"error":"..."}, and the connection is
// closed if its next request could not be told from the rest of this one. What a
// handler throws, RequestError excepted, goes to the log; the client learns nothing
// but "500".
//
// Thread-safe. After fork() the child must not use it.
class Server {
 public:
  // Throws MisuseError for invalid options, and PermanentError if the
  // address cannot be listened on.
  explicit Server(Routes routes, ServerOptions options = {});
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;

  // Takes no more connections and requests, answers those whose handlers are running
  // or waiting for their turn, and returns when all handlers have. Requests that are
  // still being received get a 503. Idempotent; must not be called by a handler.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox::http
