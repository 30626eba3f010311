// Hashes that are the same on every machine. SipHash-2-4, by Jean-Philippe Aumasson and Daniel J.
// Bernstein, spreads short inputs well. SHA-256 (FIPS 180-4) tells whether two texts are the same,
// without keeping them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outbox {

// SipHash-2-4 of what it is fed, piece by piece; the borders do not count. Not
// thread-safe.
class SipHash {
 public:
  SipHash(std::uint64_t key0, std::uint64_t key1) noexcept;

  void feed(std::string_view bytes) noexcept;

  // Eight bytes, the lowest first.
  void feed(std::uint64_t number) noexcept;

  // Ends the hash: nothing can be fed any more.
  std::uint64_t finish() noexcept;

 private:
  void round() noexcept;
  void compress(std::uint64_t word) noexcept;

  std::array<std::uint64_t, 4> v_;
  std::uint64_t word_ = 0;  // the bytes of `size_ % 8` that no word is full with
  std::uint64_t size_ = 0;
};

// SHA-256 in 64 hexadecimal digits, lower case. Thread-safe.
std::string sha256_hex(std::string_view bytes);

}  // namespace outbox
