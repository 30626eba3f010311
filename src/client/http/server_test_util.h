// A collector that does what a test wants.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace outbox::otlp {

// On a free port of the loopback, or on one that was free a moment ago. Speaks
// as much HTTP/1.1 as libcurl needs. Thread-safe.
class TestServer {
 public:
  struct Request {
    std::string line;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
    std::chrono::steady_clock::time_point at;
  };

  enum class Kind { answer, hang, hang_up };
  struct Reply {
    int status = 200;
    std::string headers{};  // "Name: value\r\n"...
    std::string body = "{}";
    Kind kind = Kind::answer;
  };
  // Gets the number of the request, from 0 on.
  using Handler = std::function<Reply(std::size_t number, const Request& request)>;

  explicit TestServer(Handler handler, int port = 0) : handler_(std::move(handler)) {
    setenv("no_proxy", "*", 1);  // whatever the machine has set up for the world outside
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_, 16) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      close(listener_);
      throw std::runtime_error("cannot listen on port " + std::to_string(port));
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::jthread([this] { accept_all(); });
  }

  ~TestServer() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      shutdown(listener_, SHUT_RDWR);
      for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
    }
    acceptor_.join();
    servers_.clear();
    close(listener_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces"; }

  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return servers_.size();
  }

  // Whether that many requests came before the deadline passed.
  bool wait_for(std::size_t requests,
                std::chrono::milliseconds deadline = std::chrono::seconds{20}) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, deadline, [&] { return requests_.size() >= requests; });
  }

 private:
  void accept_all() {
    for (;;) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      if (ending_ || connection < 0) {
        if (connection >= 0) close(connection);
        if (ending_) return;
        continue;
      }
      connections_.insert(connection);
      servers_.emplace_back([this, connection] { serve(connection); });
    }
  }

  void serve(int connection) {
    std::string buffer;
    Request request;
    while (read_request(connection, buffer, request)) {
      request.at = std::chrono::steady_clock::now();
      std::size_t number = 0;
      {
        const std::lock_guard lock(mutex_);
        number = requests_.size();
        requests_.push_back(request);
      }
      came_.notify_all();
      const Reply reply = handler_(number, request);
      if (reply.kind == Kind::hang_up) break;
      if (reply.kind == Kind::hang) {
        std::array<char, 1> byte{};
        while (recv(connection, byte.data(), byte.size(), 0) > 0) {
        }
        break;
      }
      const std::string text =
          "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n" + reply.headers +
          "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body;
      if (send(connection, text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
    }
    const std::lock_guard lock(mutex_);
    connections_.erase(connection);
    close(connection);
  }

  static bool fill(int connection, std::string& buffer) {
    std::array<char, 16'384> chunk{};
    const ssize_t n = recv(connection, chunk.data(), chunk.size(), 0);
    if (n <= 0) return false;
    buffer.append(chunk.data(), static_cast<std::size_t>(n));
    return true;
  }

  static bool read_request(int connection, std::string& buffer, Request& request) {
    std::size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!fill(connection, buffer)) return false;
    }
    request = {};
    std::size_t begin = buffer.find("\r\n");
    request.line = buffer.substr(0, begin);
    while (begin < end) {
      begin += 2;
      const std::size_t stop = buffer.find("\r\n", begin);
      const std::size_t colon = buffer.find(':', begin);
      std::string name = buffer.substr(begin, colon - begin);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const std::size_t value = buffer.find_first_not_of(' ', colon + 1);
      request.headers[name] = buffer.substr(value, stop - value);
      begin = stop;
    }
    buffer.erase(0, end + 4);
    const std::size_t size = std::stoul(request.headers["content-length"]);
    while (buffer.size() < size) {
      if (!fill(connection, buffer)) return false;
    }
    request.body = buffer.substr(0, size);
    buffer.erase(0, size);
    return true;
  }

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable came_;
  bool ending_ = false;
  std::set<int> connections_;
  std::vector<Request> requests_;
  std::vector<std::jthread> servers_;
  std::jthread acceptor_;
};

}  // namespace outbox::otlp
