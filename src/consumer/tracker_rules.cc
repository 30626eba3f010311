#include "consumer/tracker_rules.h"

#include <chrono>
#include <string>

#include "base/utf8.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

// Beyond this, adding to the present time might overflow.
constexpr std::chrono::hours kLongestRetention{24 * 365 * 100};

}  // namespace

void check_tracker_options(const TrackerOptions& options) {
  if (options.lease <= milliseconds::zero()) {
    throw MisuseError("TrackerOptions::lease is " + std::to_string(options.lease.count()) +
                      " ms; it must be longer than the slowest effect");
  }
  if (options.retention > kLongestRetention) {
    throw MisuseError("TrackerOptions::retention is " + std::to_string(options.retention.count()) +
                      " s, at most 100 years are possible");
  }
  // Below zero first: the smallest numbers of seconds are no numbers of milliseconds.
  if (options.retention < options.retention.zero() || options.retention < options.lease) {
    throw MisuseError("TrackerOptions::retention is " + std::to_string(options.retention.count()) +
                      " s, less than the lease of " + std::to_string(options.lease.count()) +
                      " ms: events in progress would be forgotten");
  }
}

void check_group(std::string_view group) {
  check_name("group of consumers", group, kMaxConsumerLength);
}

void check_consumed_event(std::string_view group, std::string_view event_id) {
  check_group(group);
  check_name("id of a consumed event", event_id, kMaxConsumedIdLength);
}

}  // namespace outbox::internal
