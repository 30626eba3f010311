// Requests that cannot be served as they are.
#pragma once

#include <string>

#include "outbox/error.h"

namespace outbox::http {

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

}  // namespace outbox::http
