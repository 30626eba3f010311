#include "store/common/options.h"

#include "outbox/error.h"

namespace outbox {
namespace {

constexpr std::size_t kMostConnections = 10'000;

}  // namespace

void check_pool_options(std::size_t connections, std::chrono::milliseconds wait_timeout,
                        const std::string& store, std::string_view why_limited) {
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

void check_not_negative(std::chrono::milliseconds duration, const std::string& option) {
  if (duration >= std::chrono::milliseconds::zero()) return;
  throw MisuseError(option + " is negative: " + std::to_string(duration.count()) + " ms");
}

}  // namespace outbox
