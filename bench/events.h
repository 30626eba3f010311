// The events that are written and drained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "outbox/event.h"

namespace outbox::bench {

inline constexpr std::size_t kPayloadBytes = 200;

// JSON text of kPayloadBytes that begins with the number, in 16 digits.
std::string payload(std::uint64_t number);
std::uint64_t number_in(std::string_view payload);

// What fills it up.
std::string padding();

// As long as the library's own.
std::string event_id(std::uint64_t number);

std::string aggregate_id(std::uint64_t number);  // one of 1,000

Draft draft(std::uint64_t number);

}  // namespace outbox::bench
