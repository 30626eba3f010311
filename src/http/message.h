// Requests and responses as handlers see them.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/target.h"

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

}  // namespace outbox::http
