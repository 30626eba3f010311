#include "base/hash.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/hex.h"

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

namespace {

constexpr std::size_t kBlock = 64;

// The fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRoundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The fractions of the square roots of the first eight primes.
using State = std::array<std::uint32_t, 8>;
constexpr State kInitial{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
  return word;
}

void compress(State& state, std::string_view block) {
  using std::rotr;
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(block, 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const std::uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
    const std::uint32_t chosen = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + s1 + chosen + kRoundConstants[i] + w[i];
    const std::uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + s0 + majority;
  }
  const State worked{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += worked[i];
}

// What is left of the input, a bit, zeros, and the length in bits.
std::string padded(std::string_view rest, std::uint64_t bytes) {
  std::string end(rest);
  end += '\x80';
  while (end.size() % kBlock != kBlock - 8) end += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bytes * 8 >> shift);
  return end;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  State state = kInitial;
  const std::size_t whole = bytes.size() / kBlock * kBlock;
  for (std::size_t at = 0; at < whole; at += kBlock) compress(state, bytes.substr(at, kBlock));
  const std::string end = padded(bytes.substr(whole), bytes.size());
  for (std::size_t at = 0; at < end.size(); at += kBlock) {
    compress(state, std::string_view(end).substr(at, kBlock));
  }
  std::string text;
  for (const std::uint32_t word : state) append_hex(text, word, 8);
  return text;
}

}  // namespace outbox
