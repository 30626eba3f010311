// Which lane an event is delivered in.
#pragma once

#include <string_view>

#include "outbox/spi/store.h"

namespace outbox {

// The same for all events of an aggregate; kNoLane for events without an
// aggregate id. Two aggregates may share a lane by chance (one pair in 2^63),
// which costs speed and not order. Thread-safe.
//
// The values are stored: they must not change from one release to the next.
LaneKey lane_key(std::string_view aggregate_type, std::string_view aggregate_id) noexcept;

}  // namespace outbox
