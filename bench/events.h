// The events that are written and drained.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "outbox/event.h"

namespace outbox::bench {

inline constexpr std::size_t kPayloadBytes = 200;
inline constexpr std::string_view kPayloadHead = R"({"n":")";
inline constexpr std::size_t kPayloadDigits = 16;

inline std::string with_zeros(std::uint64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  return text.insert(0, digits - text.size(), '0');
}

// What fills a payload up.
inline std::string padding() {
  constexpr std::size_t kAround = std::string_view(R"({"n":"","x":""})").size() + kPayloadDigits;
  return std::string(kPayloadBytes - kAround, 'x');
}

// JSON text of kPayloadBytes that begins with the number, in 16 digits.
inline std::string payload(std::uint64_t number) {
  return std::string(kPayloadHead)
      .append(with_zeros(number, kPayloadDigits))
      .append(R"(","x":")")
      .append(padding())
      .append(R"("})");
}

inline std::uint64_t number_in(std::string_view payload) {
  const std::string_view digits = payload.substr(kPayloadHead.size(), kPayloadDigits);
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// As long as the library's own.
inline std::string event_id(std::uint64_t number) { return with_zeros(number, 26); }

// One of 1,000.
inline std::string aggregate_id(std::uint64_t number) {
  return "order-" + std::to_string(number % 1'000);
}

inline Draft draft(std::uint64_t number) {
  return {.type = "Placed",
          .aggregate_type = "Order",
          .aggregate_id = aggregate_id(number),
          .payload = json(payload(number))};
}

}  // namespace outbox::bench
