// What the processes of the demo tell each other, as lines of words.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "cli/demo/process.h"
#include "outbox/log.h"

namespace outbox::demo {

// --- From the dispatcher to the receiver ---
//
// Over a Unix domain socket, one line a request, one line an answer.

// Throws PermanentError if the kernel takes no socket address of that length.
void check_socket_path(const std::string& path);

// A listening, non-blocking socket; one that a dead process left is replaced.
// Throws PermanentError if it cannot be made.
Descriptor listen_on(const std::string& path);

// What the dispatcher tells of an event, as one line, and back.
struct Message {
  std::string id{};
  std::string customer{};
  int number = 0;  // counts the customer's orders from 1

  std::string line() const;
  static std::optional<Message> parse(std::string_view line);

  friend bool operator==(const Message&, const Message&) = default;
};

// Sends messages and waits for the acknowledgement of each. Keeps connections
// for the next ones. Thread-safe.
class Client {
 public:
  Client(std::string path, std::chrono::milliseconds timeout);

  // Throws UnavailableError if nobody answers in time.
  void deliver(const Message& message);

 private:
  Descriptor take();
  Descriptor connect() const;

  const std::string path_;
  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  std::vector<Descriptor> idle_ OUTBOX_GUARDED_BY(mutex_);
};

// --- From every process to the one that started it ---
//
// Lines on its standard output.

// A moment on the monotonic clock, which all processes of a host share.
using Moment = std::chrono::steady_clock::time_point;

struct Report {
  enum class Kind : std::uint8_t {
    ready,        // has started and does its work
    committed,    // an order: id, at
    rolled_back,  // an order: id
    received,     // an order for the first time: id, at
    duplicate,    // an order that the receiver knew already: id, at
    log,          // text
  };

  Kind kind = Kind::log;
  std::string id{};
  Moment at{};
  std::string text{};

  std::string line() const;

  // A line that is none of ours, such as a last word on standard error, is a
  // line of the log.
  static Report parse(std::string_view line);

  friend bool operator==(const Report&, const Report&) = default;
};

// Writes the report to standard output, in one piece.
void tell(const Report& report);

// Tells every message from `least` on.
Logger telling_log(LogLevel least = LogLevel::info);

// --- Words ---

// Cuts the first word and the space after it off the line.
inline std::string_view next_word(std::string_view& line) {
  const auto end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

template <class Number>
std::optional<Number> to_number(std::string_view word) {
  Number number{};
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

}  // namespace outbox::demo
