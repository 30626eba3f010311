// What every ConsumptionTracker asks of its users.
#pragma once

#include <string_view>

#include "outbox/consumer/consumption.h"

namespace outbox::internal {

// Throw MisuseError that says what makes no sense.
void check_tracker_options(const TrackerOptions& options);
void check_group(std::string_view group);
void check_consumed_event(std::string_view group, std::string_view event_id);

}  // namespace outbox::internal
