#include "outbox/log.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/quote.h"
#include "base/time_text.h"
#include "outbox/clock.h"

namespace outbox {

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "unknown";
}

Logger standard_error_log(LogLevel least) {
  return [least](const LogRecord& record) {
    if (record.level < least) return;
    std::string line = time_text(host_clock().now());
    line += " outbox ";
    line += to_string(record.level);
    line += ": ";
    line += printable(record.message);
    line += '\n';
    // One call, so that lines of several threads do not mix. If it fails there
    // is nobody left to tell.
    while (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {
    }
  };
}

}  // namespace outbox
