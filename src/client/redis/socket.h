// A stream of bytes to a server, with a deadline for everything.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

struct sockaddr;

namespace outbox::redis {

using Deadline = std::chrono::steady_clock::time_point;

// What went wrong with a stream, without the server's name.
class StreamError final : public std::runtime_error {
 public:
  enum class Kind {
    broken,     // it ended, or never began
    timed_out,  // the deadline passed
    refused,    // it would fail again: one end does not accept the other
  };

  StreamError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}

  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

// Used by one thread at a time. Raises no SIGPIPE. All members throw StreamError.
class Socket {
 public:
  // Tries the addresses of the host one after the other. The deadline does not hold for
  // the lookup of its name, which the system limits.
  static Socket to_host(const std::string& host, int port, Deadline deadline);
  static Socket to_path(const std::string& path, Deadline deadline);

  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  // All of it.
  void send(std::string_view bytes, Deadline deadline);

  // What has come, at least one byte; 0 if the server has closed the connection.
  std::size_t receive(std::span<char> buffer, Deadline deadline);

  // Whether there is something to read: bytes, or the end.
  bool readable() const;

 private:
  explicit Socket(int number) : number_(number) {}

  void connect(const sockaddr* address, unsigned size, Deadline deadline);
  void wait(short events, Deadline deadline) const;

  int number_;
};

}  // namespace outbox::redis
