#include "support/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

namespace outbox::test {
namespace {

void check(int result, const char* what, int port) {
  if (result >= 0) return;
  throw std::system_error(errno, std::generic_category(),
                          what + std::string(" 127.0.0.1:") + std::to_string(port));
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

Descriptor tcp_socket(int port) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(number, "socket", port);
  return Descriptor(number);
}

}  // namespace

Descriptor::~Descriptor() {
  if (open()) close(number_);
}

Descriptor bind_loopback(int port) {
  Descriptor bound = tcp_socket(port);
  const int on = 1;
  check(setsockopt(bound.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "reuse", port);
  const sockaddr_in address = loopback(port);
  check(bind(bound.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind",
        port);
  return bound;
}

Descriptor listen_on_loopback(int port) {
  Descriptor listener = bind_loopback(port);
  check(listen(listener.number(), SOMAXCONN), "listen", port);
  return listener;
}

Descriptor connect_to_loopback(int port) {
  Descriptor client = tcp_socket(port);
  const sockaddr_in address = loopback(port);
  check(connect(client.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
        "connect", port);
  return client;
}

int local_port(const Descriptor& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  check(getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size), "getsockname",
        0);
  return ntohs(address.sin_port);
}

void reset_on_close(const Descriptor& socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace outbox::test
