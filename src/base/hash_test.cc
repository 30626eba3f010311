#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

// Of SipHash's reference implementation: key 00 01 .. 0f, input 00 01 .. n-1.
constexpr std::uint64_t kKey0 = 0x0706050403020100;
constexpr std::uint64_t kKey1 = 0x0f0e0d0c0b0a0908;

std::string counting(std::size_t size) {
  std::string text;
  while (text.size() < size) text += static_cast<char>(text.size());
  return text;
}

TEST(SipHash, AgreesWithTheReferenceVectors) {
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

// Of NIST's examples for FIPS 180-4.
TEST(Sha256, AgreesWithThePublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Bytes 0, 1, 2, ..., as another implementation has it: where the last block is just
// full, and around it.
TEST(Sha256, IsRightAtTheBordersOfItsBlocks) {
  struct Vector {
    std::size_t size;
    const char* hash;
  };
  constexpr Vector kVectors[] = {
      {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
      {54, "675f28acc0b90a72d1c3a570fe83ac565555db358cf01826dc8eefb2bf7ca0f3"},
      {55, "463eb28e72f82e0a96c0a4cc53690c571281131f672aa229e0d45ae59b598b59"},
      {56, "da2ae4d6b36748f2a318f23e7ab1dfdf45acdc9d049bd80e59de82a60895f562"},
      {57, "2fe741af801cc238602ac0ec6a7b0c3a8a87c7fc7d7f02a3fe03d1c12eac4d8f"},
      {62, "c89da82cbcd76ddf220e4e9091019b9866ffda72bee30de1effe6c99701a2221"},
      {63, "29af2686fd53374a36b0846694cc342177e428d1647515f078784d69cdb9e488"},
      {64, "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108"},
      {65, "4bfd2c8b6f1eec7a2afeb48b934ee4b2694182027e6d0fc075074f2fabb31781"},
      {118, "d32ab00929cb935b79d44e74c5a745db460ff794dea3b79be40c1cc5cf5388ef"},
      {119, "da18797ed7c3a777f0847f429724a2d8cd5138e6ed2895c3fa1a6d39d18f7ec6"},
      {120, "f52b23db1fbb6ded89ef42a23ce0c8922c45f25c50b568a93bf1c075420bbb7c"},
      {121, "335a461692b30bba1d647cc71604e88e676c90e4c22455d0b8c83f4bd7c8ac9b"},
      {127, "92ca0fa6651ee2f97b884b7246a562fa71250fedefe5ebf270d31c546bfea976"},
      {128, "471fb943aa23c511f6f72f8d1652d9c880cfa392ad80503120547703e56a2be5"},
      {129, "5099c6a56203f9687f7d33f4bfdf576d31dc91f6b695ecea38b2770c87631135"},
      {191, "d280f473c251cb75c91880ea0eca2a2f1cda3152bef54a38c4a3aedad615c819"},
      {192, "8b4a544837a1a0280fa8a7c82865c27a1064b3cc6281fda0753566b9bb104a87"},
      {200, "1901da1c9f699b48f6b2636e65cbf73abf99d0441ef67f5c540a42f7051dec6f"},
  };
  std::string input;
  while (input.size() < 200) input += static_cast<char>(input.size());
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(sha256_hex(input.substr(0, vector.size)), vector.hash) << vector.size;
  }
}

}  // namespace
}  // namespace outbox
