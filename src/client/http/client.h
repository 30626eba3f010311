// Requests over libcurl that somebody else can hurry.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace outbox::otlp {

using Deadline = std::chrono::steady_clock::time_point;

// What came of a request.
struct Answer {
  int status = 0;            // of HTTP; 0: none came
  std::string body{};        // its beginning
  std::string error{};       // why none came
  bool unreachable = false;  // none came, and one may come later
  std::optional<std::chrono::seconds> retry_after{};
};

// Posts JSON to one address and keeps the connection. One thread posts; any
// thread may call wake().
class HttpPost {
 public:
  // Throws MisuseError if the address or a header cannot be used.
  HttpPost(const std::string& url, const std::map<std::string, std::string>& headers);
  ~HttpPost();
  HttpPost(const HttpPost&) = delete;
  HttpPost& operator=(const HttpPost&) = delete;

  // Never throws for what happens on the way. The request is cut off at the
  // deadline, which is asked for again after wake().
  Answer post(const std::string& body, const std::function<Deadline()>& deadline);

  void wake() noexcept;

  // Scheme, host and port: what may be logged of an address.
  const std::string& where() const noexcept { return where_; }

 private:
  class Handles;
  std::string where_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace outbox::otlp
