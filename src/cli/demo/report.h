// What a process of the demo tells the one that started it: lines on its
// standard output.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "outbox/log.h"

namespace outbox::demo {

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

}  // namespace outbox::demo
