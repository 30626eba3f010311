#include "cli/demo/messages.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using Kind = Report::Kind;
using std::chrono::microseconds;

constexpr std::array<std::pair<Kind, std::string_view>, 6> kNames{
    {{Kind::ready, "@ready"},
     {Kind::committed, "@committed"},
     {Kind::rolled_back, "@rolled_back"},
     {Kind::received, "@received"},
     {Kind::duplicate, "@duplicate"},
     {Kind::log, "@log"}}};

bool has_moment(Kind kind) {
  return kind == Kind::committed || kind == Kind::received || kind == Kind::duplicate;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

template <class Call>
int with_address(const std::string& path, Call call) {
  check_socket_path(path);
  const sockaddr_un address = address_of(path);
  // The sockets API takes every kind of address through this cast.
  return call(reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(sizeof address));
}

[[noreturn]] void unavailable(const std::string& what) {
  const int reason = errno;
  throw UnavailableError("the receiver " + what + ": " + std::strerror(reason));
}

}  // namespace

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
  Descriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) fail("make");
  unlink(path.c_str());
  const int bound = with_address(path, [&](const sockaddr* address, socklen_t size) {
    return bind(socket.get(), address, size);
  });
  if (bound != 0) fail("bind");
  if (listen(socket.get(), 16) != 0) fail("listen on");
  return socket;
}

std::string Message::line() const { return id + ' ' + customer + ' ' + std::to_string(number); }

std::optional<Message> Message::parse(std::string_view line) {
  Message message;
  message.id = next_word(line);
  message.customer = next_word(line);
  const auto number = to_number<int>(next_word(line));
  if (message.id.empty() || message.customer.empty() || !number || !line.empty()) {
    return std::nullopt;
  }
  message.number = *number;
  return message;
}

Client::Client(std::string path, std::chrono::milliseconds timeout)
    : path_(std::move(path)), timeout_(timeout) {
  check_socket_path(path_);
}

void Client::deliver(const Message& message) {
  Descriptor socket = take();
  const std::string line = message.line() + '\n';
  // One send for a short line: a Unix socket takes it whole or not at all.
  if (send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size())) {
    unavailable("takes nothing");
  }
  char answer = 0;
  const ssize_t got = recv(socket.get(), &answer, 1, 0);
  if (got < 0) unavailable("does not answer");
  if (got == 0) throw UnavailableError("the receiver hung up");
  if (answer != '+') throw PermanentError("the receiver refused " + quote(message.line()));
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
  Descriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!socket) unavailable("cannot be reached");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout_);
  timeval limit{};
  limit.tv_sec = seconds.count();
  limit.tv_usec = std::chrono::microseconds(timeout_ - seconds).count();
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const int connected = with_address(path_, [&](const sockaddr* address, socklen_t size) {
    return ::connect(socket.get(), address, size);
  });
  if (connected != 0) unavailable("cannot be reached");
  return socket;
}

std::string Report::line() const {
  std::string result;
  for (const auto& [candidate, name] : kNames) {
    if (candidate == kind) result = name;
  }
  if (kind == Kind::log) return result + ' ' + text;
  if (kind != Kind::ready) result += ' ' + id;
  if (has_moment(kind)) {
    const auto since = std::chrono::duration_cast<microseconds>(at.time_since_epoch());
    result += ' ' + std::to_string(since.count());
  }
  return result;
}

Report Report::parse(std::string_view line) {
  std::string_view rest = line;
  const std::string_view word = next_word(rest);
  for (const auto& [kind, name] : kNames) {
    if (word != name) continue;
    if (kind == Kind::log) return {.kind = kind, .text = std::string(rest)};
    Report report{.kind = kind, .id = std::string(next_word(rest))};
    if (!has_moment(kind)) return report;
    const auto since = to_number<std::int64_t>(next_word(rest));
    if (!since) break;
    report.at = Moment{microseconds{*since}};
    return report;
  }
  return {.kind = Kind::log, .text = std::string(line)};
}

void tell(const Report& report) {
  const std::string line = report.line() + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // nobody listens any more
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

Logger telling_log(LogLevel least) {
  return [least](const LogRecord& record) {
    if (record.level < least) return;
    tell({.kind = Kind::log, .text = std::string(record.message)});
  };
}

}  // namespace outbox::demo
