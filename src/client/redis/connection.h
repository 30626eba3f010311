// Connections to a Redis server, and a pool of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/connection_pool.h"
#include "base/mutex.h"
#include "client/redis/connect_options.h"
#include "client/redis/hiredis.h"
#include "client/redis/socket.h"
#include "client/redis/tls.h"
#include "outbox/log.h"

namespace outbox::redis {

struct Timeouts {
  std::chrono::milliseconds connect{2'000};  // with the handshake of TLS
  std::chrono::milliseconds answer{2'000};
};

// Connected and logged in. Used by one thread at a time.
class Connection {
 public:
  // `tls`: for a target that asks for it. Throws UnavailableError or PermanentError.
  Connection(const ConnectOptions& target, Timeouts timeouts, const TlsContext* tls = nullptr);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One command and its answer, which is never null. Throws what an error of the server
  // means (see throw_error), and UnavailableError if the connection is lost: the command
  // may have been carried out then.
  ReplyHandle command(std::span<const std::string_view> words);
  ReplyHandle command(std::initializer_list<std::string_view> words) {
    return command(std::span(words.begin(), words.size()));
  }

  // The same, with errors of the server as answers.
  ReplyHandle try_command(std::span<const std::string_view> words);

  // Many commands in one round trip:
  //
  //   for (...) connection.append({"XADD", ...});
  //   connection.flush();
  //   while (connection.outstanding() > 0) read(*connection.next_reply());
  //
  // Replies come in the order of the commands, errors of the server among them. If the
  // connection is lost, so are the replies that are outstanding, and each of their commands
  // may have been carried out. Until all have been read, no other command may be sent.
  //
  // What the replies amount to lies in the server's memory until it is read: append no more
  // at once than it should hold.
  void append(std::span<const std::string_view> words);
  void append(std::initializer_list<std::string_view> words) {
    append(std::span(words.begin(), words.size()));
  }
  void flush();
  ReplyHandle next_reply();
  std::size_t outstanding() const { return outstanding_; }

  // Throws what an error that the server answered means.
  [[noreturn]] void refuse(std::string_view error);

  // Whether it is of no more use; and whether because an answer took too long.
  bool lost() const { return lost_; }
  bool timed_out() const { return timed_out_; }

  // Whether one that comes back may be used again: nothing is outstanding.
  bool reusable() const { return !lost_ && outstanding_ == 0 && unsent_.empty(); }

  // Whether one that has lain idle can still be used. Asks the system, not the server.
  bool healthy() const;

  // For messages.
  const std::string& place() const { return place_; }

 private:
  Connection(const ConnectOptions& target, Timeouts timeouts, const TlsContext* tls,
             Deadline deadline);

  Socket connect(const ConnectOptions& target, Deadline deadline) const;
  void start_tls(const ConnectOptions& target, const TlsContext* tls, Deadline deadline);
  [[noreturn]] void cannot_connect(const StreamError& error, const char* hint_if_silent = "") const;
  void log_in(const ConnectOptions& target);
  [[noreturn]] void refuse_login(std::string_view error);
  std::size_t receive(std::span<char> buffer, Deadline deadline);
  [[noreturn]] void lose(const StreamError& error);
  [[noreturn]] void lose(const std::string& why);
  std::string hint_if_never_answered() const;

  // Constant after construction.
  const std::string place_;
  const Timeouts timeouts_;
  const bool by_network_;

  Socket socket_;
  std::optional<TlsStream> tls_;
  ReaderHandle reader_;
  std::string unsent_;
  std::size_t outstanding_ = 0;
  bool answered_ = false;  // the server has, once at least
  bool lost_ = false;
  bool timed_out_ = false;
};

// Lua, sent once and called by its digest from then on. Thread-safe.
class Script {
 public:
  // The text must live as long as the script.
  explicit Script(std::string_view text) : text_(text) {}

  // Throws as Connection::command() does.
  ReplyHandle run(Connection& connection, std::string_view key,
                  const std::vector<std::string_view>& arguments) OUTBOX_EXCLUDES(mutex_);

 private:
  std::string digest(Connection& connection) OUTBOX_EXCLUDES(mutex_);

  const std::string_view text_;

  Mutex mutex_;
  std::string digest_ OUTBOX_GUARDED_BY(mutex_);  // empty: not known yet
};

struct ClientOptions {
  std::size_t connections = 8;
  std::chrono::milliseconds wait_timeout{5'000};
  Timeouts timeouts{};
  TlsSettings tls{};  // for a target that asks for TLS
  Logger log{};       // not empty
};

// A pool of connections. A server that is unreachable is asked again with pauses that grow; in
// between callers are told at once. Thread-safe. After fork() the child must not use it.
class Client {
 public:
  // Throws MisuseError for invalid options. Does not connect yet.
  Client(ConnectOptions target, ClientOptions options);

  using Handle = ConnectionPool<Connection>::Handle;

  // Throws UnavailableError or PermanentError; MisuseError after fork().
  Handle take();

  // For messages.
  const std::string& place() const { return place_; }

 private:
  struct Link;

  const std::string place_;
  const std::shared_ptr<Link> link_;
  const std::shared_ptr<ConnectionPool<Connection>> pool_;
};

}  // namespace outbox::redis
