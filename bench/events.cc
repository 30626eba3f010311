#include "events.h"

#include <charconv>

namespace outbox::bench {
namespace {

constexpr std::string_view kHead = R"({"n":")";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kIdDigits = 26;

std::string with_zeros(std::uint64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  return text.insert(0, digits - text.size(), '0');
}

}  // namespace

std::string padding() {
  constexpr std::size_t kAround = std::string_view(R"({"n":"","x":""})").size() + kDigits;
  return std::string(kPayloadBytes - kAround, 'x');
}

std::string payload(std::uint64_t number) {
  return std::string(kHead)
      .append(with_zeros(number, kDigits))
      .append(R"(","x":")")
      .append(padding())
      .append(R"("})");
}

std::uint64_t number_in(std::string_view payload) {
  const std::string_view digits = payload.substr(kHead.size(), kDigits);
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::string event_id(std::uint64_t number) { return with_zeros(number, kIdDigits); }

std::string aggregate_id(std::uint64_t number) { return "order-" + std::to_string(number % 1'000); }

Draft draft(std::uint64_t number) {
  return {.type = "Placed",
          .aggregate_type = "Order",
          .aggregate_id = aggregate_id(number),
          .payload = json(payload(number))};
}

}  // namespace outbox::bench
