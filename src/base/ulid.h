// ULIDs: 48 bits of time and 80 random ones, as 26 characters that sort alike.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <random>

namespace outbox {

struct Ulid {
  std::uint64_t ms = 0;    // since 1970
  std::uint16_t high = 0;  // of the random part
  std::uint64_t low = 0;

  friend auto operator<=>(const Ulid&, const Ulid&) = default;
};

// Of the random part of ids: seeded with 512 bits that nobody can foretell.
std::mt19937_64 seeded_generator();

// No time that fits a ULID is later.
inline constexpr std::uint64_t kMaxUlidMs = (std::uint64_t{1} << 48) - 1;

// A ULID greater than `last`: with a new random part if the time has moved on,
// else one more than `last`, and with a time of its own once the random part is
// used up.
template <class Random>
Ulid next_ulid(const Ulid& last, std::uint64_t ms, Random& random) {
  Ulid next = last;
  if (ms <= last.ms) {
    if (++next.low != 0 || ++next.high != 0) return next;
    ms = last.ms + 1;
  }
  return {.ms = ms, .high = static_cast<std::uint16_t>(random()), .low = random()};
}

using UlidText = std::array<char, 26>;

// Crockford's base 32.
UlidText encode(const Ulid& ulid) noexcept;

}  // namespace outbox
