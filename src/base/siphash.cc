#include "base/siphash.h"

#include <bit>

namespace outbox {

SipHash::SipHash(std::uint64_t key0, std::uint64_t key1) noexcept
    : v_{key0 ^ 0x736f6d6570736575, key1 ^ 0x646f72616e646f6d, key0 ^ 0x6c7967656e657261,
         key1 ^ 0x7465646279746573} {}

void SipHash::feed(std::string_view bytes) noexcept {
  for (const char c : bytes) {
    word_ |= std::uint64_t{static_cast<unsigned char>(c)} << (size_ % 8 * 8);
    if (++size_ % 8 == 0) {
      compress(word_);
      word_ = 0;
    }
  }
}

void SipHash::feed(std::uint64_t number) noexcept {
  std::array<char, 8> bytes{};
  for (char& byte : bytes) {
    byte = static_cast<char>(number & 0xFF);
    number >>= 8;
  }
  feed(std::string_view(bytes.data(), bytes.size()));
}

std::uint64_t SipHash::finish() noexcept {
  compress(word_ | size_ << 56);
  v_[2] ^= 0xFF;
  for (int i = 0; i < 4; ++i) round();
  return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
}

void SipHash::round() noexcept {
  auto& [v0, v1, v2, v3] = v_;
  v0 += v1;
  v1 = std::rotl(v1, 13) ^ v0;
  v0 = std::rotl(v0, 32);
  v2 += v3;
  v3 = std::rotl(v3, 16) ^ v2;
  v0 += v3;
  v3 = std::rotl(v3, 21) ^ v0;
  v2 += v1;
  v1 = std::rotl(v1, 17) ^ v2;
  v2 = std::rotl(v2, 32);
}

void SipHash::compress(std::uint64_t word) noexcept {
  v_[3] ^= word;
  round();
  round();
  v_[0] ^= word;
}

}  // namespace outbox
