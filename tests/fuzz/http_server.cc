// Whole connections to the HTTP server: whatever is sent, it answers in HTTP
// or closes, and goes on to serve the next one.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>

#include "http/server.h"
#include "no_log.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

constexpr int kPatience = 20'000;  // ms

http::Routes routes() {
  http::Routes all;
  all.add("GET", "/", [](const http::Request& request) {
    return http::Response{.body = request.target.find("name").value_or("nobody")};
  });
  all.add("POST", "/echo", [](const http::Request& request) {
    return http::Response{.content_type = "application/octet-stream", .body = request.body};
  });
  return all;
}

http::Server& server() {
  static http::Server instance(routes(), {.workers = 1, .max_body_bytes = 4'096, .log = no_log()});
  return instance;
}

// libFuzzer's watchdog sends signals, which end a system call that waits.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

class Client {
 public:
  Client() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    // Each from an address of its own: ended connections occupy a pair of ports for a
    // minute, and thousands of them a second would soon occupy all of one address.
    static std::uint32_t clients = 0;
    const sockaddr_in from = address(INADDR_LOOPBACK + 0x10000 + (clients++ % 0xffff), 0);
    require(bind(socket_, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0,
            "a client gets an address");
    const sockaddr_in to = address(INADDR_LOOPBACK, server().port());
    // One that was interrupted goes on by itself: the second call says that it has ended.
    const int connected = uninterrupted(
        [&] { return connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to); });
    require(connected == 0 || errno == EISCONN, "the server takes connections");
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n =
          uninterrupted([&] { return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
      if (n <= 0) return;  // it may refuse to hear more
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    shutdown(socket_, SHUT_WR);
  }

  // Everything up to the end of the connection.
  std::string receive() {
    std::string all;
    std::array<char, 16'384> bytes{};
    while (true) {
      pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
      require(uninterrupted([&] { return poll(&waiting, 1, kPatience); }) == 1,
              "the server answers or closes");
      const ssize_t n = uninterrupted([&] { return recv(socket_, bytes.data(), bytes.size(), 0); });
      if (n <= 0) return all;
      all.append(bytes.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  static sockaddr_in address(std::uint32_t host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(host);
    return address;
  }

  int socket_;
};

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  Client client;
  client.send(text_of(data, size));
  const std::string answer = client.receive();
  require(answer.empty() || answer.starts_with("HTTP/1."), "an answer is HTTP");
  if (answer.starts_with("HTTP/1.")) {
    require(answer.size() > 12 && '1' <= answer[9] && answer[9] <= '5', "it has a status");
    require(answer.substr(9, 3) != "500", "nothing that a client sends is the server's fault");
    require(answer.find("\r\n\r\n") != std::string::npos, "its head has an end");
  }
  return 0;
}
