// The options that every store on a database has.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/bounded.h"
#include "outbox/clock.h"
#include "outbox/error.h"
#include "outbox/log.h"
#include "outbox/spi/json_codec.h"

namespace outbox {

inline void check_not_negative(std::chrono::milliseconds duration, const std::string& option) {
  if (duration >= std::chrono::milliseconds::zero()) return;
  throw MisuseError(option + " is negative: " + std::to_string(duration.count()) + " ms");
}

// Throws MisuseError unless a pool can be made with these. `store`: the namespace of the
// options; `why_limited`: completes "so many connections are allowed, because ...".
inline void check_pool_options(std::size_t connections, std::chrono::milliseconds wait_timeout,
                               const std::string& store, std::string_view why_limited) {
  constexpr std::size_t kMostConnections = 10'000;
  if (connections == 0) {
    throw MisuseError(store + "::Options::connections is 0: it needs at least 1");
  }
  if (connections > kMostConnections) {
    throw MisuseError(store + "::Options::connections is " + std::to_string(connections) +
                      ": at most " + std::to_string(kMostConnections) + " are allowed" +
                      (why_limited.empty() ? "" : ", because " + std::string(why_limited)));
  }
  check_not_negative(wait_timeout, store + "::Options::wait_timeout");
}

// Checks them, and fills in what was left out.
template <class Options>
Options resolved(Options options, const std::string& store, std::string_view why_limited = {}) {
  check_pool_options(options.connections, options.wait_timeout, store, why_limited);
  options.wait_timeout = internal::bounded(options.wait_timeout);
  if constexpr (requires { options.statement_timeout; }) {
    check_not_negative(options.statement_timeout, store + "::Options::statement_timeout");
    options.statement_timeout = internal::bounded(options.statement_timeout);
  }
  if (!options.codec) options.codec = default_json_codec();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

}  // namespace outbox
