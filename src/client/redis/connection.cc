#include "client/redis/connection.h"

#include <array>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "outbox/error.h"

namespace outbox::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A command as the server wants it.
class Formatted {
 public:
  explicit Formatted(std::span<const std::string_view> words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> lengths;
    for (const std::string_view word : words) {
      texts.push_back(word.data());
      lengths.push_back(word.size());
    }
    length_ = redisFormatCommandArgv(&text_, static_cast<int>(words.size()), texts.data(),
                                     lengths.data());
    if (length_ < 0) throw std::bad_alloc();
  }
  ~Formatted() { redisFreeCommand(text_); }
  Formatted(const Formatted&) = delete;
  Formatted& operator=(const Formatted&) = delete;

  std::string_view bytes() const { return {text_, static_cast<std::size_t>(length_)}; }

 private:
  char* text_ = nullptr;
  int length_ = -1;
};

std::string_view text_of(const redisReply& reply) { return {reply.str, reply.len}; }

std::string in_milliseconds(milliseconds time) { return std::to_string(time.count()) + " ms"; }

}  // namespace

Connection::Connection(const ConnectOptions& target, Timeouts timeouts, const TlsContext* tls)
    : Connection(target, timeouts, tls, steady_clock::now() + timeouts.connect) {}

Connection::Connection(const ConnectOptions& target, Timeouts timeouts, const TlsContext* tls,
                       Deadline deadline)
    : place_(target.place()),
      timeouts_(timeouts),
      by_network_(target.socket.empty()),
      socket_(connect(target, deadline)),
      reader_(redisReaderCreate()) {
  if (!reader_) throw std::bad_alloc();
  if (target.tls) start_tls(target, tls, deadline);
  log_in(target);
}

Socket Connection::connect(const ConnectOptions& target, Deadline deadline) const {
  try {
    return by_network_ ? Socket::to_host(target.host, target.port, deadline)
                       : Socket::to_path(target.socket, deadline);
  } catch (const StreamError& error) {
    cannot_connect(error);
  }
}

void Connection::start_tls(const ConnectOptions& target, const TlsContext* tls, Deadline deadline) {
  if (tls == nullptr) throw MisuseError("a connection to Redis with TLS needs a TlsContext");
  try {
    tls_.emplace(socket_, *tls, target.host, deadline);
  } catch (const StreamError& error) {
    // A plain server waits for the end of what it takes for a command.
    cannot_connect(error, "; if it does not speak TLS at that port, write redis://");
  }
}

void Connection::cannot_connect(const StreamError& error, const char* hint_if_silent) const {
  const std::string message = "cannot connect to Redis (" + place_ + "): ";
  switch (error.kind()) {
    case StreamError::Kind::refused:
      throw PermanentError(message + error.what());
    case StreamError::Kind::timed_out:
      throw UnavailableError(message + "no answer within " + in_milliseconds(timeouts_.connect) +
                             hint_if_silent);
    case StreamError::Kind::broken:
      break;
  }
  throw UnavailableError(message + error.what());
}

void Connection::log_in(const ConnectOptions& target) {
  if (target.password) {
    std::vector<std::string_view> words{"AUTH"};
    if (target.user) words.emplace_back(*target.user);
    words.emplace_back(*target.password);
    const ReplyHandle reply = try_command(words);
    if (reply->type == REDIS_REPLY_ERROR) refuse_login(text_of(*reply));
  }
  if (target.database != 0) command({"SELECT", std::to_string(target.database)});
}

void Connection::refuse_login(std::string_view error) {
  // No password is set, or it is wrong, or this server knows no users: they are told apart
  // by their words alone.
  if (error_code(error) == "ERR" && !error.starts_with("ERR max number of clients")) {
    throw PermanentError("Redis (" + place_ + ") refuses the login: " + error_text(error) +
                         "; check the user and the password of the URL");
  }
  refuse(error);
}

ReplyHandle Connection::command(std::span<const std::string_view> words) {
  ReplyHandle reply = try_command(words);
  if (reply->type == REDIS_REPLY_ERROR) refuse(text_of(*reply));
  return reply;
}

void Connection::refuse(std::string_view error) {
  // The next connection may lead to the new primary.
  if (error_code(error) == "READONLY") lost_ = true;
  throw_error(error, place_);
}

ReplyHandle Connection::try_command(std::span<const std::string_view> words) {
  if (outstanding_ > 0 || !unsent_.empty()) {
    throw MisuseError("a command for Redis (" + place_ + ") while " + std::to_string(outstanding_) +
                      " replies are outstanding");
  }
  append(words);
  return next_reply();
}

void Connection::append(std::span<const std::string_view> words) {
  unsent_ += Formatted(words).bytes();
  ++outstanding_;
}

void Connection::flush() {
  const Deadline deadline = steady_clock::now() + timeouts_.answer;
  try {
    if (tls_) {
      tls_->send(unsent_, deadline);
    } else {
      socket_.send(unsent_, deadline);
    }
  } catch (const StreamError& error) {
    lose(error);
  }
  unsent_.clear();
}

ReplyHandle Connection::next_reply() {
  if (outstanding_ == 0) throw MisuseError("no reply of Redis (" + place_ + ") is outstanding");
  if (!unsent_.empty()) flush();
  const Deadline deadline = steady_clock::now() + timeouts_.answer;
  std::array<char, std::size_t{16} * 1024> buffer;
  for (;;) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
      lose(std::string("no Redis answers there: ") + reader_->errstr);
    }
    if (reply != nullptr) {
      --outstanding_;
      answered_ = true;
      return ReplyHandle(static_cast<redisReply*>(reply));
    }
    const std::size_t size = receive(buffer, deadline);
    if (size == 0) lose("the server closed the connection");
    if (redisReaderFeed(reader_.get(), buffer.data(), size) != REDIS_OK) throw std::bad_alloc();
  }
}

std::size_t Connection::receive(std::span<char> buffer, Deadline deadline) {
  try {
    return tls_ ? tls_->receive(buffer, deadline) : socket_.receive(buffer, deadline);
  } catch (const StreamError& error) {
    lose(error);
  }
}

void Connection::lose(const StreamError& error) {
  if (error.kind() == StreamError::Kind::refused) {
    lost_ = true;
    throw PermanentError("Redis (" + place_ + "): " + error.what());
  }
  timed_out_ = error.kind() == StreamError::Kind::timed_out;
  lose(timed_out_ ? "no answer within " + in_milliseconds(timeouts_.answer) : error.what());
}

void Connection::lose(const std::string& why) {
  lost_ = true;
  outstanding_ = 0;
  unsent_.clear();
  throw UnavailableError("the connection to Redis (" + place_ + ") is lost: " + why +
                         hint_if_never_answered());
}

std::string Connection::hint_if_never_answered() const {
  if (answered_ || timed_out_ || !by_network_) return {};
  // A server ends the connection without a word of either.
  return tls_ ? "; if it asks for the certificates of its clients, set "
                "redis::Options::tls.certificate_file and key_file"
              : "; if it speaks TLS at that port, write rediss://";
}

bool Connection::healthy() const {
  // Nothing is due: whatever there is to read is the end.
  return !lost_ && !socket_.readable();
}

namespace {

ReplyHandle call(Connection& connection, std::string_view how, std::string_view script,
                 std::string_view key, const std::vector<std::string_view>& arguments) {
  std::vector<std::string_view> words{how, script, "1", key};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return connection.try_command(words);
}

bool is_error(const redisReply& reply) { return reply.type == REDIS_REPLY_ERROR; }

}  // namespace

ReplyHandle Script::run(Connection& connection, std::string_view key,
                        const std::vector<std::string_view>& arguments) {
  ReplyHandle reply = call(connection, "EVALSHA", digest(connection), key, arguments);
  // A server that was restarted, or another one.
  if (is_error(*reply) && error_code(text_of(*reply)) == "NOSCRIPT") {
    reply = call(connection, "EVAL", text_, key, arguments);
  }
  if (is_error(*reply)) connection.refuse(text_of(*reply));
  return reply;
}

std::string Script::digest(Connection& connection) {
  {
    MutexLock lock(mutex_);
    if (!digest_.empty()) return digest_;
  }
  // The server's arithmetic, so that none of our own is needed; the same for each.
  const ReplyHandle reply = connection.command({"SCRIPT", "LOAD", text_});
  if (reply->type != REDIS_REPLY_STRING) {
    throw PermanentError("Redis (" + connection.place() + ") does not say how it calls a script");
  }
  MutexLock lock(mutex_);
  return digest_ = std::string(text_of(*reply));
}

namespace {

constexpr milliseconds kLongestTimeout{std::chrono::hours{24}};

void check_timeout(const std::string& name, milliseconds value, milliseconds least) {
  if (value >= least && value <= kLongestTimeout) return;
  throw MisuseError("redis::Options::" + name + " is " + std::to_string(value.count()) +
                    " ms, from " + std::to_string(least.count()) + " ms to a day are possible");
}

void check(const ConnectOptions& target, const ClientOptions& options) {
  if (!target.tls && !(options.tls == TlsSettings{})) {
    throw MisuseError("redis::Options::tls is set, and the URL asks for no TLS: write rediss://");
  }
  if (options.connections == 0) {
    throw MisuseError("redis::Options::connections is 0, at least 1 is needed");
  }
  check_timeout("wait_timeout", options.wait_timeout, milliseconds{0});
  check_timeout("connect_timeout", options.timeouts.connect, milliseconds{1});
  check_timeout("timeout", options.timeouts.answer, milliseconds{1});
}

}  // namespace

// What the pool needs to open connections; it may outlive the client.
struct Client::Link {
  Link(ConnectOptions to, ClientOptions with) : target(std::move(to)), options(std::move(with)) {
    if (target.tls) tls.emplace(options.tls);
  }

  std::unique_ptr<Connection> open() {
    reconnection.check(steady_clock::now());
    try {
      auto connection =
          std::make_unique<Connection>(target, options.timeouts, tls ? &*tls : nullptr);
      reconnection.succeeded();
      if (unreachable.exchange(false))
        options.log({LogLevel::info,
                     "redis_available",
                     "Redis is available again: " + target.place(),
                     {{"server", target.place()}}});
      return connection;
    } catch (const UnavailableError& error) {
      reconnection.failed(error.what(), steady_clock::now());
      if (!unreachable.exchange(true))
        options.log({LogLevel::warning,
                     "redis_unavailable",
                     error.what(),
                     {{"server", target.place()}, {"error", error.what()}}});
      throw;
    }
  }

  const ConnectOptions target;
  const ClientOptions options;
  std::optional<TlsContext> tls;
  // Well below the time for which a tracker tries to record an effect.
  Reconnection reconnection;
  std::atomic<bool> unreachable{false};
};

Client::Client(ConnectOptions target, ClientOptions options)
    : place_(target.place()),
      link_(
          (check(target, options), std::make_shared<Link>(std::move(target), std::move(options)))),
      pool_(std::make_shared<ConnectionPool<Connection>>(PoolOptions<Connection>{
          .size = link_->options.connections,
          .wait_timeout = link_->options.wait_timeout,
          .description = "Redis at " + place_,
          .hint = "raise redis::Options::connections or wait_timeout",
          .open = [link = link_] { return link->open(); },
          .make_ready = [](Connection& connection) { return connection.reusable(); },
          .is_healthy = [](Connection& connection) { return connection.healthy(); }})) {}

Client::Handle Client::take() {
  try {
    return pool_->take();
  } catch (const UnavailableError&) {
    throw;
  } catch (const RetryableError& error) {
    // All are in use, or it is too early to connect again: nobody's fault either.
    throw UnavailableError(error.what());
  }
}

}  // namespace outbox::redis
