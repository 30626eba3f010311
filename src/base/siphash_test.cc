#include "base/siphash.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

// Of the reference implementation: key 00 01 .. 0f, input 00 01 .. n-1.
constexpr std::uint64_t kKey0 = 0x0706050403020100;
constexpr std::uint64_t kKey1 = 0x0f0e0d0c0b0a0908;
struct Vector {
  std::size_t size;
  std::uint64_t hash;
};
constexpr Vector kVectors[] = {
    {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd},  {2, 0x0d6c8009d9a94f5a},
    {3, 0x85676696d7fb7e2d}, {4, 0xcf2794e0277187b7},  {5, 0x18765564cd99a68d},
    {6, 0xcbc9466e58fee3ce}, {7, 0xab0200f58b01d137},  {8, 0x93f5f5799a932462},
    {9, 0x9e0082df0ba9e4b0}, {15, 0xa129ca6149be45e5}, {63, 0x958a324ceb064572},
};

std::string counting(std::size_t size) {
  std::string text;
  while (text.size() < size) text += static_cast<char>(text.size());
  return text;
}

TEST(SipHash, AgreesWithTheReferenceVectors) {
  for (const Vector& vector : kVectors) {
    SipHash hash(kKey0, kKey1);
    hash.feed(counting(vector.size));
    EXPECT_EQ(hash.finish(), vector.hash) << vector.size;
  }
}

TEST(SipHash, DoesNotMindHowTheInputIsCut) {
  const std::string input = counting(63);
  for (std::size_t cut = 0; cut <= input.size(); ++cut) {
    SipHash hash(kKey0, kKey1);
    hash.feed(input.substr(0, cut));
    hash.feed(input.substr(cut));
    EXPECT_EQ(hash.finish(), 0x958a324ceb064572U);
  }
}

TEST(SipHash, ReadsANumberFromItsLowestByte) {
  SipHash hash(kKey0, kKey1);
  hash.feed(std::uint64_t{0x0706050403020100});
  EXPECT_EQ(hash.finish(), 0x93f5f5799a932462U);
}

}  // namespace
}  // namespace outbox
