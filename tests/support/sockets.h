// TCP sockets of the loopback, for tests.
#pragma once

#include <utility>

namespace outbox::test {

// Owns a file descriptor. Not thread-safe.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// All throw std::system_error. Port 0: any that is free.
Descriptor bind_loopback(int port);
Descriptor listen_on_loopback(int port);
Descriptor connect_to_loopback(int port);

int local_port(const Descriptor& socket);

// Closing it then tells the other end that the connection is broken (RST), not
// that it ended (FIN).
void reset_on_close(const Descriptor& socket);

}  // namespace outbox::test
