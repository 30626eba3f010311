#include "courier.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "ledger.h"
#include "outbox/error.h"

namespace outbox::chaos {
namespace {

// Longer than any stop, and than a restart on a busy machine.
constexpr int kPatienceMs = 20'000;
constexpr int kBacklog = 64;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw std::system_error(ENAMETOOLONG, std::generic_category(), path);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Descriptor new_socket() {
  Descriptor result(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result) throw std::system_error(errno, std::generic_category(), "socket");
  return result;
}

[[noreturn]] void unavailable(const char* call) {
  throw UnavailableError(std::string("receiver: ") + call + ": " + std::strerror(errno));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Descriptor::~Descriptor() {
  if (descriptor_ >= 0) close(descriptor_);
}

Descriptor listen_at(const std::string& path) {
  const sockaddr_un address = address_of(path);
  Descriptor result = new_socket();
  unlink(path.c_str());  // of a former life
  if (bind(result.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(result.get(), kBacklog) != 0) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  return result;
}

Descriptor connect_to(const std::string& path) {
  const sockaddr_un address = address_of(path);
  Descriptor result = new_socket();
  if (connect(result.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    unavailable("connect");
  }
  return result;
}

Descriptor Courier::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Descriptor kept = std::move(idle_.back());
      idle_.pop_back();
      return kept;
    }
  }
  return connect_to(path_);
}

void Courier::deliver(const Arrival& arrival) {
  // A connection on which anything failed is not used again.
  Descriptor connection = take();
  const std::string packet = to_line(arrival);
  if (send(connection.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) unavailable("send");
  pollfd answer{connection.get(), POLLIN, 0};
  if (poll(&answer, 1, kPatienceMs) == 0) {
    throw UnavailableError("receiver: no answer in " + std::to_string(kPatienceMs) + " ms");
  }
  char acknowledged = 0;
  if (recv(connection.get(), &acknowledged, 1, 0) != 1) unavailable("recv");
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

}  // namespace outbox::chaos
