#include "support/tcp_proxy.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "support/sockets.h"

namespace outbox::test {
namespace {

// Beyond it, a sender has to wait until the receiver has read.
constexpr std::size_t kMaxBuffered = 262'144;

// Of what was sent, so much is remembered to find texts across packets.
constexpr std::size_t kLongestText = 1024;

// The last bytes of a stream.
class Tail {
 public:
  // Whether the text ends in the piece that comes next.
  bool completes(std::string_view piece, const std::string& text) const {
    const std::size_t before = std::min(last_.size(), text.size() - 1);
    return (last_.substr(last_.size() - before) + std::string(piece)).find(text) !=
           std::string::npos;
  }

  // How much of the piece belongs to the text; it must complete it.
  std::size_t end_of(std::string_view piece, const std::string& text) const {
    const std::size_t before = std::min(last_.size(), text.size() - 1);
    const std::string all = last_.substr(last_.size() - before) + std::string(piece);
    return all.find(text) + text.size() - before;
  }

  void append(std::string_view piece) {
    last_.append(piece);
    if (last_.size() > kLongestText) last_.erase(0, last_.size() - kLongestText);
  }

 private:
  std::string last_;
};

void check_text(const std::string& text) {
  if (text.empty() || text.size() > kLongestText) {
    throw std::invalid_argument("a text of 1 to " + std::to_string(kLongestText) +
                                " bytes is needed, not of " + std::to_string(text.size()));
  }
}

// One way of a connection.
struct Way {
  std::string buffer;
  bool ended = false;   // nothing more will be read
  bool closed = false;  // and the receiver knows
};

struct Connection {
  explicit Connection(Wire wire) : commits(wire), answer(wire) {}

  Descriptor client, server;
  bool connected = false;  // to the server
  bool broken = false;
  bool held = false;  // neither read nor told anything any more, but for what is buffered
  Way up, down;       // to the server, to the client
  Tail requests;
  std::optional<std::string> end_of_lost_reply;  // set while the reply is being lost
  Tail lost_reply;
  std::optional<std::string> other_reply;  // to what was asked last
  CommitScanner commits;
  CommitAnswer answer;
  bool in_commit = false;  // the client waits for the answer
  bool loses_answer = false;
};

struct LostReply {
  std::string request;
  std::string until;
};

struct OtherReply {
  std::string request;
  std::string reply;
};

}  // namespace

class TcpProxy::Loop {
 public:
  Loop(const std::string& address, int port, Wire wire);
  ~Loop();

  int port() const { return port_; }

  // Runs it in the thread of the loop, where everything below is used, and waits.
  void perform(std::function<void()> task) OUTBOX_EXCLUDES(mutex_);

  void cut();
  void refuse() { listener_ = Descriptor(); }
  void admit();
  void set_stalled(bool on) { stalled_ = on; }
  void drop_request(const std::string& text) { lost_request_ = text; }
  void drop_reply(LostReply reply) { lost_reply_ = std::move(reply); }
  void cut_commit(CommitCut where) { commit_cut_ = where; }
  CommitCuts commit_cuts() const { return commit_cuts_; }
  void hold_request(const std::string& text) { held_request_ = text; }
  int held() const {
    return static_cast<int>(std::count_if(connections_.begin(), connections_.end(),
                                          [](const Connection& each) { return each.held; }));
  }
  void replace_reply(OtherReply reply) { other_reply_ = std::move(reply); }
  int drops() const { return drops_; }
  int connections() const { return static_cast<int>(connections_.size()); }
  int accepted() const { return accepted_; }

 private:
  void run();
  std::vector<pollfd> watched() const;
  void serve(Connection& connection, short client_events, short server_events);
  void finish_connecting(Connection& connection);
  void from_client(Connection& connection, std::string_view bytes);
  void from_server(Connection& connection, std::string_view bytes);
  bool begins_commit(Connection& connection, std::string_view bytes);
  void remove_ended();
  void accept_one();
  void run_tasks() OUTBOX_EXCLUDES(mutex_);

  // Constant after construction.
  sockaddr_storage target_{};
  socklen_t target_size_ = 0;
  // Bound, and never listens: while it refuses, nobody else gets the port.
  Descriptor reserved_;
  Descriptor wake_;
  int port_ = 0;
  const Wire wire_;

  // Of the loop's thread.
  Descriptor listener_;
  bool stalled_ = false;
  bool stopping_ = false;
  int drops_ = 0;
  int accepted_ = 0;
  std::optional<std::string> lost_request_;
  std::optional<std::string> held_request_;
  std::optional<LostReply> lost_reply_;
  std::optional<OtherReply> other_reply_;
  std::optional<CommitCut> commit_cut_;
  CommitCuts commit_cuts_;
  std::list<Connection> connections_;

  Mutex mutex_;
  std::deque<std::packaged_task<void()>> tasks_ OUTBOX_GUARDED_BY(mutex_);

  std::jthread thread_;
};

namespace {

void make_nonblocking(const Descriptor& socket) {
  fcntl(socket.number(), F_SETFL, fcntl(socket.number(), F_GETFL) | O_NONBLOCK);
}

short wish(bool to_read, bool to_write) {
  return static_cast<short>((to_read ? POLLIN : 0) | (to_write ? POLLOUT : 0));
}

bool wants_more(const Connection& connection, const Way& way) {
  return !connection.held && !way.ended && way.buffer.size() < kMaxBuffered;
}

// Without a wish it is not watched at all: poll would report its errors for ever.
pollfd watch(const Descriptor& descriptor, short events) {
  return {.fd = events == 0 ? -1 : descriptor.number(), .events = events, .revents = 0};
}

short client_wish(const Connection& connection) {
  return wish(wants_more(connection, connection.up), !connection.down.buffer.empty());
}

short server_wish(const Connection& connection) {
  if (!connection.connected) return POLLOUT;
  return wish(wants_more(connection, connection.down), !connection.up.buffer.empty());
}

bool would_block() { return errno == EAGAIN || errno == EINTR; }

void send_buffered(Connection& connection, const Descriptor& to, Way& way) {
  if (!way.buffer.empty()) {
    const ssize_t sent = send(to.number(), way.buffer.data(), way.buffer.size(), MSG_NOSIGNAL);
    if (sent > 0) way.buffer.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && !would_block()) connection.broken = true;
  }
  if (way.ended && way.buffer.empty() && !way.closed) {
    shutdown(to.number(), SHUT_WR);
    way.closed = true;
  }
}

template <class Take>
void receive(Connection& connection, const Descriptor& from, Way& way, Take take) {
  std::array<char, 16384> bytes;
  const ssize_t size = recv(from.number(), bytes.data(), bytes.size(), 0);
  if (size > 0) take(std::string_view(bytes.data(), static_cast<std::size_t>(size)));
  if (size == 0) way.ended = true;
  if (size < 0 && !would_block()) connection.broken = true;
}

void send_without_delay(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

TcpProxy::Loop::Loop(const std::string& address, int port, Wire wire)
    : reserved_(bind_loopback(0)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      port_(local_port(reserved_)),
      wire_(wire) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    throw std::runtime_error("'" + address + "' is no numeric address: " + gai_strerror(error));
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&target_));
  target_size_ = found->ai_addrlen;
  freeaddrinfo(found);
  if (!wake_.open()) throw std::system_error(errno, std::generic_category(), "eventfd");
  admit();
  thread_ = std::jthread([this] { run(); });
}

TcpProxy::Loop::~Loop() {
  perform([this] {
    cut();
    stopping_ = true;
  });
}

void TcpProxy::Loop::perform(std::function<void()> task) {
  std::packaged_task<void()> wrapped(std::move(task));
  std::future<void> done = wrapped.get_future();
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(wrapped));
  }
  eventfd_write(wake_.number(), 1);
  done.get();
}

void TcpProxy::Loop::run_tasks() {
  eventfd_t ignored = 0;
  eventfd_read(wake_.number(), &ignored);
  std::deque<std::packaged_task<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void TcpProxy::Loop::cut() {
  for (Connection& connection : connections_) {
    commit_cuts_.during += connection.in_commit ? 1 : 0;
    connection.broken = true;
  }
  remove_ended();
}

void TcpProxy::Loop::admit() {
  if (listener_.open()) return;
  listener_ = listen_on_loopback(port_);
  // A client may be gone again when it is its turn.
  make_nonblocking(listener_);
}

void TcpProxy::Loop::run() {
  name_this_thread("tcp_proxy");
  while (!stopping_) {
    std::vector<pollfd> events = watched();
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (!stalled_) {
      auto event = events.begin() + 2;
      for (Connection& connection : connections_) {
        const short client_events = (event++)->revents;
        const short server_events = (event++)->revents;
        serve(connection, client_events, server_events);
      }
      remove_ended();
      if (events[1].revents != 0) accept_one();
    }
    if (events[0].revents != 0) run_tasks();
  }
}

// The wake-up, the listener, then client and server of each connection.
std::vector<pollfd> TcpProxy::Loop::watched() const {
  std::vector<pollfd> result{watch(wake_, POLLIN), watch(listener_, stalled_ ? 0 : POLLIN)};
  if (stalled_) return result;
  for (const Connection& connection : connections_) {
    result.push_back(watch(connection.client, client_wish(connection)));
    result.push_back(watch(connection.server, server_wish(connection)));
  }
  return result;
}

void TcpProxy::Loop::serve(Connection& connection, short client_events, short server_events) {
  if (!connection.connected) {
    if (server_events != 0) finish_connecting(connection);
    // What the client sent meanwhile is read below and kept.
    server_events = 0;
  }
  if (client_events != 0 && wants_more(connection, connection.up)) {
    receive(connection, connection.client, connection.up,
            [&](std::string_view bytes) { from_client(connection, bytes); });
  }
  if (server_events != 0 && wants_more(connection, connection.down)) {
    receive(connection, connection.server, connection.down,
            [&](std::string_view bytes) { from_server(connection, bytes); });
  }
  if (connection.broken) return;
  if (connection.connected) send_buffered(connection, connection.server, connection.up);
  send_buffered(connection, connection.client, connection.down);
}

void TcpProxy::Loop::finish_connecting(Connection& connection) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.server.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  connection.connected = error == 0;
  connection.broken = error != 0;
}

// False if it does not arrive.
bool TcpProxy::Loop::begins_commit(Connection& connection, std::string_view bytes) {
  if (!connection.commits.take(bytes)) return true;
  connection.in_commit = true;
  connection.answer.begin();
  if (!commit_cut_) return true;
  switch (*std::exchange(commit_cut_, std::nullopt)) {
    case CommitCut::before:
      ++commit_cuts_.before;
      ++drops_;
      connection.broken = true;
      return false;
    case CommitCut::during:
      connection.up.buffer.append(bytes);
      // What does not fit into the socket is lost with it: then it did not arrive.
      send_buffered(connection, connection.server, connection.up);
      ++(connection.up.buffer.empty() ? commit_cuts_.during : commit_cuts_.before);
      ++drops_;
      connection.broken = true;
      return false;
    case CommitCut::after:
      connection.loses_answer = true;
      return true;
  }
  return true;
}

void TcpProxy::Loop::from_client(Connection& connection, std::string_view bytes) {
  if (!begins_commit(connection, bytes)) return;
  if (lost_request_ && connection.requests.completes(bytes, *lost_request_)) {
    lost_request_.reset();
    ++drops_;
    connection.broken = true;
    return;
  }
  if (lost_reply_ && connection.requests.completes(bytes, lost_reply_->request)) {
    connection.end_of_lost_reply = std::move(lost_reply_->until);
    lost_reply_.reset();
  }
  if (held_request_ && connection.requests.completes(bytes, *held_request_)) {
    bytes = bytes.substr(0, connection.requests.end_of(bytes, *held_request_));
    held_request_.reset();
    connection.held = true;
  }
  if (other_reply_ && connection.requests.completes(bytes, other_reply_->request)) {
    connection.other_reply = std::move(other_reply_->reply);
    other_reply_.reset();
  }
  connection.requests.append(bytes);
  connection.up.buffer.append(bytes);
}

void TcpProxy::Loop::from_server(Connection& connection, std::string_view bytes) {
  const bool answered = connection.in_commit && connection.answer.take(bytes);
  connection.in_commit = connection.in_commit && !answered;
  if (connection.loses_answer) {
    if (!answered) return;
    ++commit_cuts_.after;
    ++drops_;
    connection.broken = true;
    return;
  }
  if (!connection.end_of_lost_reply) {
    connection.down.buffer.append(connection.other_reply.value_or(std::string(bytes)));
    connection.other_reply.reset();
    return;
  }
  const std::string& until = *connection.end_of_lost_reply;
  if (until.empty() || connection.lost_reply.completes(bytes, until)) {
    ++drops_;
    connection.broken = true;
  }
  connection.lost_reply.append(bytes);
}

void TcpProxy::Loop::remove_ended() {
  connections_.remove_if([](const Connection& connection) {
    if (connection.broken) {
      reset_on_close(connection.client);
      reset_on_close(connection.server);
    }
    return connection.broken || (connection.up.closed && connection.down.closed);
  });
}

void TcpProxy::Loop::accept_one() {
  Connection connection(wire_);
  connection.client =
      Descriptor(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.client.open()) return;
  connection.server =
      Descriptor(socket(target_.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int result = connect(connection.server.number(),
                             reinterpret_cast<const sockaddr*>(&target_), target_size_);
  connection.connected = result == 0;
  connection.broken = result != 0 && errno != EINPROGRESS;
  send_without_delay(connection.client);
  send_without_delay(connection.server);
  connections_.push_back(std::move(connection));
  ++accepted_;
  remove_ended();
}

TcpProxy::TcpProxy(const std::string& target_address, int target_port, Wire wire)
    : loop_(std::make_unique<Loop>(target_address, target_port, wire)) {}

TcpProxy::~TcpProxy() = default;

int TcpProxy::port() const { return loop_->port(); }

void TcpProxy::cut() {
  loop_->perform([this] { loop_->cut(); });
}

void TcpProxy::refuse() {
  loop_->perform([this] { loop_->refuse(); });
}

void TcpProxy::admit() {
  loop_->perform([this] { loop_->admit(); });
}

void TcpProxy::stall() {
  loop_->perform([this] { loop_->set_stalled(true); });
}

void TcpProxy::resume() {
  loop_->perform([this] { loop_->set_stalled(false); });
}

void TcpProxy::drop_request(const std::string& text) {
  check_text(text);
  loop_->perform([&] { loop_->drop_request(text); });
}

void TcpProxy::drop_reply(const std::string& text, const std::string& until) {
  check_text(text);
  if (!until.empty()) check_text(until);
  loop_->perform([&] { loop_->drop_reply({.request = text, .until = until}); });
}

void TcpProxy::cut_commit(CommitCut where) {
  loop_->perform([&] { loop_->cut_commit(where); });
}

CommitCuts TcpProxy::commit_cuts() const {
  CommitCuts result;
  loop_->perform([&] { result = loop_->commit_cuts(); });
  return result;
}

void TcpProxy::hold_request(const std::string& text) {
  check_text(text);
  loop_->perform([&] { loop_->hold_request(text); });
}

int TcpProxy::held() const {
  int result = 0;
  loop_->perform([&] { result = loop_->held(); });
  return result;
}

void TcpProxy::replace_reply(const std::string& text, const std::string& reply) {
  check_text(text);
  loop_->perform([&] { loop_->replace_reply({.request = text, .reply = reply}); });
}

int TcpProxy::drops() const {
  int result = 0;
  loop_->perform([&] { result = loop_->drops(); });
  return result;
}

int TcpProxy::connections() const {
  int result = 0;
  loop_->perform([&] { result = loop_->connections(); });
  return result;
}

int TcpProxy::accepted() const {
  int result = 0;
  loop_->perform([&] { result = loop_->accepted(); });
  return result;
}

}  // namespace outbox::test
