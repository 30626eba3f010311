#include "client/redis/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <vector>

#include "outbox/error.h"

namespace outbox::redis {
namespace {

timeval timeval_of(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const std::chrono::microseconds rest = time - seconds;
  return {.tv_sec = static_cast<time_t>(seconds.count()),
          .tv_usec = static_cast<suseconds_t>(rest.count())};
}

std::string system_error_text(int error) { return std::generic_category().message(error); }

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

}  // namespace

Connection::Connection(const ConnectOptions& target, Timeouts timeouts)
    : place_(target.place()), answer_timeout_(timeouts.answer) {
  connect(target, timeouts);
  log_in(target);
}

void Connection::connect(const ConnectOptions& target, Timeouts timeouts) {
  const timeval connect_timeout = timeval_of(timeouts.connect);
  context_.reset(target.socket.empty()
                     ? redisConnectWithTimeout(target.host.c_str(), target.port, connect_timeout)
                     : redisConnectUnixWithTimeout(target.socket.c_str(), connect_timeout));
  if (!context_) throw UnavailableError("out of memory for a connection to Redis");
  if (context_->err != 0) {
    throw UnavailableError("cannot connect to Redis (" + place_ + "): " + context_->errstr);
  }
  fcntl(context_->fd, F_SETFD, FD_CLOEXEC);
  if (redisSetTimeout(context_.get(), timeval_of(timeouts.answer)) != REDIS_OK) {
    throw UnavailableError("cannot set up a connection to Redis (" + place_ +
                           "): " + context_->errstr);
  }
  if (target.socket.empty()) redisEnableKeepAlive(context_.get());
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
  send_all(Formatted(words).bytes());
  void* reply = nullptr;
  errno = 0;
  if (redisGetReply(context_.get(), &reply) != REDIS_OK || reply == nullptr) {
    timed_out_ = context_->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
    lose(timed_out_ ? "no answer within " + std::to_string(answer_timeout_.count()) + " ms"
                    : context_->errstr);
  }
  return ReplyHandle(static_cast<redisReply*>(reply));
}

// Not by hiredis: where the server has gone, it would raise SIGPIPE, which ends programs.
void Connection::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(context_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) lose(system_error_text(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Connection::lose(const std::string& why) {
  lost_ = true;
  throw UnavailableError("the connection to Redis (" + place_ + ") is lost: " + why);
}

bool Connection::healthy() const {
  // Nothing is due: whatever there is to read is the end.
  pollfd socket{.fd = context_->fd, .events = POLLIN, .revents = 0};
  return !lost_ && poll(&socket, 1, 0) == 0;
}

}  // namespace outbox::redis
