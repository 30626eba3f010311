#include "outbox/retry.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "base/thread.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using std::chrono::milliseconds;

double library_random() {
  // One generator a thread: no lock on the workers' path.
  thread_local std::mt19937_64 generator{random_seed()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(generator);
}

ExponentialBackoffOptions checked(ExponentialBackoffOptions options) {
  if (options.base <= milliseconds::zero() || options.base > options.max) {
    throw MisuseError(
        "retry backoff needs 0 < base <= max, got base = " + std::to_string(options.base.count()) +
        " ms, max = " + std::to_string(options.max.count()) + " ms");
  }
  if (!options.random) options.random = library_random;
  return options;
}

// base * 2^(n-1), without overflowing for any n.
milliseconds doubled(milliseconds base, milliseconds max, int failed_attempts) {
  milliseconds delay = base;
  for (int n = 1; n < failed_attempts && delay < max; ++n) {
    delay = delay > max / 2 ? max : delay * 2;
  }
  return delay;
}

}  // namespace

ExponentialBackoff::ExponentialBackoff(ExponentialBackoffOptions options)
    : options_(checked(std::move(options))) {}

milliseconds ExponentialBackoff::delay(int failed_attempts) const {
  const milliseconds unspread = doubled(options_.base, options_.max, failed_attempts);
  const double jitter = 0.5 + options_.random();
  const milliseconds spread{
      static_cast<milliseconds::rep>(static_cast<double>(unspread.count()) * jitter)};
  return std::min(options_.max, spread);
}

}  // namespace outbox
