// A connection to a Redis server.
#pragma once

#include <chrono>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "client/redis/connect_options.h"
#include "client/redis/hiredis.h"

namespace outbox::redis {

struct Timeouts {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds answer{2'000};
};

// Connected and logged in. Used by one thread at a time.
class Connection {
 public:
  // Throws UnavailableError or PermanentError.
  Connection(const ConnectOptions& target, Timeouts timeouts);
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

  // Throws what an error that try_command() answered means.
  [[noreturn]] void refuse(std::string_view error);

  // Whether it is of no more use; and whether because an answer took too long.
  bool lost() const { return lost_; }
  bool timed_out() const { return timed_out_; }

  // Whether one that has lain idle can still be used. Asks the system, not the server.
  bool healthy() const;

  // For messages.
  const std::string& place() const { return place_; }

 private:
  void connect(const ConnectOptions& target, Timeouts timeouts);
  void log_in(const ConnectOptions& target);
  [[noreturn]] void refuse_login(std::string_view error);
  void send_all(std::string_view bytes);
  [[noreturn]] void lose(const std::string& why);

  const std::string place_;
  const std::chrono::milliseconds answer_timeout_;
  ContextHandle context_;
  bool lost_ = false;
  bool timed_out_ = false;
};

}  // namespace outbox::redis
