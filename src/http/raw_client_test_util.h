// A client that sends whatever bytes a test wants, on a plain socket.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace outbox::http {

// Every wait ends after a while: a test that would hang fails instead.
inline constexpr std::chrono::seconds kClientPatience{20};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      const int error = errno;
      ::close(socket_);
      throw std::system_error(error, std::generic_category(), "connect");
    }
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), buffer_(std::move(other.buffer_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() {
    if (socket_ >= 0) ::close(socket_);
  }

  // False if the server has gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  void shutdown_sending() { ::shutdown(socket_, SHUT_WR); }

  struct Answer {
    int status = 0;  // 0: the server closed without one
    std::string head{};
    std::string body{};
  };

  // The next response, by its Content-Length; `head_only` for those to HEAD.
  Answer receive(bool head_only = false) {
    Answer answer;
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return answer;
    }
    answer.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.substr(answer.head.find(' ') + 1).c_str());
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const std::size_t length = answer.head.find(kLength);
    if (length == std::string::npos || head_only) return answer;
    const auto size =
        static_cast<std::size_t>(std::atoll(answer.head.substr(length + kLength.size()).c_str()));
    while (buffer_.size() < size) {
      if (!fill()) return {};
    }
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return answer;
  }

  Answer ask(std::string_view request) {
    send(request);
    return receive();
  }

  // True if the server closes the connection and sends nothing more.
  bool sees_end() { return buffer_.empty() && !fill(); }

 private:
  // False at the end of the stream; fails the test when nothing comes for long.
  bool fill() {
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    const auto patience = std::chrono::milliseconds(kClientPatience).count();
    if (poll(&waiting, 1, static_cast<int>(patience)) <= 0) {
      ADD_FAILURE() << "the server neither answers nor closes";
      return false;
    }
    std::array<char, 16'384> bytes{};
    const ssize_t n = recv(socket_, bytes.data(), bytes.size(), 0);
    if (n <= 0) return false;
    buffer_.append(bytes.data(), static_cast<std::size_t>(n));
    return true;
  }

  int socket_;
  std::string buffer_;
};

}  // namespace outbox::http
