#include "client/redis/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>

#include "base/handle.h"

namespace outbox::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

[[noreturn]] void fail(int error) {
  throw StreamError(StreamError::Kind::broken, std::generic_category().message(error));
}

int new_socket(int family) {
  const int number = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (number < 0) fail(errno);
  return number;
}

// As poll() takes it: rounded up, so that it does not spin at the end.
int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<milliseconds::rep>(left, 0, std::numeric_limits<int>::max()));
}

using Addresses = std::unique_ptr<addrinfo, Destroyer<freeaddrinfo>>;

Addresses look_up(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == EAI_SYSTEM) fail(errno);
  if (error != 0) throw StreamError(StreamError::Kind::broken, gai_strerror(error));
  return Addresses(found);
}

// So that a server that has vanished is noticed while nothing is sent.
void keep_alive(int number) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(number, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

Socket Socket::to_host(const std::string& host, int port, Deadline deadline) {
  const Addresses addresses = look_up(host, port);
  int left = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    ++left;
  }
  for (const addrinfo* address = addresses.get();; address = address->ai_next, --left) {
    // An address that does not answer leaves time for those behind it.
    const auto now = steady_clock::now();
    const Deadline share = now + (deadline - now) / left;
    try {
      Socket socket(new_socket(address->ai_family));
      keep_alive(socket.number_);
      socket.connect(address->ai_addr, address->ai_addrlen, share);
      return socket;
    } catch (const StreamError&) {
      if (left == 1) throw;
    }
  }
}

Socket Socket::to_path(const std::string& path, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) fail(ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  Socket socket(new_socket(AF_UNIX));
  socket.connect(reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
  return socket;
}

Socket::~Socket() {
  if (number_ >= 0) close(number_);
}

void Socket::connect(const sockaddr* address, unsigned size, Deadline deadline) {
  if (::connect(number_, address, size) == 0) return;
  if (errno != EINPROGRESS && errno != EINTR) fail(errno);
  wait(POLLOUT, deadline);
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(number_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) fail(error);
}

void Socket::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

std::size_t Socket::receive(std::span<char> buffer, Deadline deadline) {
  for (;;) {
    const ssize_t received = recv(number_, buffer.data(), buffer.size(), 0);
    if (received >= 0) return static_cast<std::size_t>(received);
    if (errno == EAGAIN) {
      wait(POLLIN, deadline);
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

bool Socket::readable() const {
  pollfd socket{.fd = number_, .events = POLLIN, .revents = 0};
  return poll(&socket, 1, 0) != 0;
}

void Socket::wait(short events, Deadline deadline) const {
  pollfd socket{.fd = number_, .events = events, .revents = 0};
  for (;;) {
    const int left = milliseconds_until(deadline);
    const int ready = poll(&socket, 1, left);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail(errno);
    if (ready == 0 && left == 0) {
      throw StreamError(StreamError::Kind::timed_out, "timed out");
    }
  }
}

}  // namespace outbox::redis
