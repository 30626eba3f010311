#include "harness/receiver.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::harness {
namespace {

constexpr int kBacklog = 64;

// Stands for an empty aggregate, so that every line has the same words.
constexpr std::string_view kNone = "-";

template <class Call>
int with_address(const std::string& path, Call call) {
  check_socket_path(path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // The sockets API takes every kind of address through this cast.
  return call(reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(sizeof address));
}

Descriptor new_socket(int flags = 0) {
  return Descriptor{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)};
}

[[noreturn]] void unavailable(const std::string& what) {
  const int reason = errno;
  throw UnavailableError("the receiver " + what + ": " + std::strerror(reason));
}

// Again if it was interrupted: a process that was stopped and goes on is, in calls that have a
// time limit.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// One who does not wait for the answer any more will send the event again.
void answer(int socket, char text) { send(socket, &text, 1, MSG_NOSIGNAL); }

}  // namespace

// --- Messages ---

std::string Message::line() const {
  std::ostringstream line;
  line << id << ' ' << (aggregate.empty() ? kNone : std::string_view(aggregate)) << ' ' << number
       << ' ' << epoch << ' ' << process << ' ' << attempt << ' ' << at;
  return std::move(line).str();
}

std::optional<Message> Message::parse(std::string_view line) {
  std::istringstream in{std::string(line)};
  Message message;
  in >> message.id >> message.aggregate >> message.number >> message.epoch >> message.process >>
      message.attempt >> message.at;
  std::string rest;
  if (!in || in >> rest) return std::nullopt;
  if (message.aggregate == kNone) message.aggregate.clear();
  return message;
}

std::vector<Message> read_messages(const std::string& ledger) {
  std::vector<Message> messages;
  for (const std::string& line : read_lines(ledger)) {
    auto message = Message::parse(line);
    if (!message) throw PermanentError("not a line of a ledger: " + line);
    messages.push_back(std::move(*message));
  }
  return messages;
}

// --- Sockets ---

void check_socket_path(const std::string& path) {
  if (constexpr std::size_t kLimit = sizeof(sockaddr_un::sun_path) - 1; path.size() > kLimit) {
    throw PermanentError("the path of a Unix domain socket may have " + std::to_string(kLimit) +
                         " bytes, and this one has " + std::to_string(path.size()) + ": " + path);
  }
}

Descriptor listen_on(const std::string& path) {
  const auto fail = [&](const char* what) {
    const int reason = errno;
    throw PermanentError(std::string("cannot ") + what + " the socket " + path + ": " +
                         std::strerror(reason));
  };
  Descriptor socket = new_socket(SOCK_NONBLOCK);
  if (!socket) fail("make");
  unlink(path.c_str());
  const int bound = with_address(path, [&](const sockaddr* address, socklen_t size) {
    return bind(socket.get(), address, size);
  });
  if (bound != 0) fail("bind");
  if (listen(socket.get(), kBacklog) != 0) fail("listen on");
  return socket;
}

// --- Client ---

Client::Client(std::string path, std::chrono::milliseconds timeout)
    : path_(std::move(path)), timeout_(timeout) {
  check_socket_path(path_);
}

void Client::deliver(const Message& message) {
  // A connection on which anything failed is not used again.
  Descriptor socket = take();
  const std::string line = message.line();
  const ssize_t sent =
      uninterrupted([&] { return send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL); });
  if (sent < 0) unavailable("takes nothing");
  char reply = 0;
  const ssize_t got = uninterrupted([&] { return recv(socket.get(), &reply, 1, 0); });
  if (got < 0) unavailable("does not answer");
  if (got == 0) throw UnavailableError("the receiver hung up");
  if (reply != '+') throw PermanentError("the receiver refused " + quote(line));
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(socket));
}

Descriptor Client::take() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      Descriptor socket = std::move(idle_.back());
      idle_.pop_back();
      return socket;
    }
  }
  return connect();
}

Descriptor Client::connect() const {
  Descriptor socket = new_socket();
  if (!socket) unavailable("cannot be reached");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout_);
  timeval limit{};
  limit.tv_sec = seconds.count();
  limit.tv_usec = std::chrono::microseconds(timeout_ - seconds).count();
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const int connected = with_address(path_, [&](const sockaddr* address, socklen_t size) {
    return uninterrupted([&] { return ::connect(socket.get(), address, size); });
  });
  if (connected != 0) unavailable("cannot be reached");
  return socket;
}

// --- Receiver ---

Receiver::Receiver(ReceiverOptions options)
    : options_(std::move(options)),
      ledger_(options_.ledger),
      listening_(listen_on(options_.socket)) {}

void Receiver::serve(const Signals& stop) {
  for (;;) {
    std::vector<pollfd> waiting{{.fd = stop.descriptor(), .events = POLLIN, .revents = 0},
                                {.fd = listening_.get(), .events = POLLIN, .revents = 0}};
    for (const Descriptor& sender : senders_) {
      waiting.push_back({.fd = sender.get(), .events = POLLIN, .revents = 0});
    }
    if (poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    if (waiting[0].revents != 0) return;
    for (std::size_t n = 0; n < senders_.size(); ++n) {
      if (waiting[n + 2].revents != 0 && !read(senders_[n])) senders_[n].reset();
    }
    write_down();
    std::erase_if(senders_, [](const Descriptor& sender) { return !sender; });
    if (waiting[1].revents != 0) accept();
  }
}

void Receiver::accept() {
  Descriptor sender{accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (sender) senders_.push_back(std::move(sender));
}

// False if the sender is gone.
bool Receiver::read(const Descriptor& sender) {
  std::array<char, 4096> packet;
  const ssize_t size = recv(sender.get(), packet.data(), packet.size(), 0);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;
  auto message = Message::parse({packet.data(), static_cast<std::size_t>(size)});
  if (!message) {
    answer(sender.get(), '-');
  } else if (std::exchange(options_.forget_one, false)) {
    answer(sender.get(), '+');
  } else {
    message->at = std::chrono::duration_cast<std::chrono::microseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
    arrivals_.push_back({std::move(*message), sender.get(), std::chrono::steady_clock::now()});
  }
  return true;
}

// All that arrived in this round, with one sync; then, and only then, the acknowledgements.
void Receiver::write_down() {
  if (arrivals_.empty()) return;
  for (const Arrival& arrival : arrivals_) ledger_.append(arrival.message.line());
  if (options_.sync) ledger_.sync();
  for (const Arrival& arrival : arrivals_) answer(arrival.from, '+');
  if (options_.on_message) {
    for (const Arrival& arrival : arrivals_) options_.on_message(arrival.message, arrival.at);
  }
  arrivals_.clear();
}

}  // namespace outbox::harness
