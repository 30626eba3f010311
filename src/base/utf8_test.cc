#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::string_literals;

TEST(Utf8, AcceptsTheFirstAndLastCodePointOfEveryLength) {
  for (const std::string& text :
       {"\0"s, "\x7F"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s, "\xED\x9F\xBF"s, "\xEE\x80\x80"s,
        "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s}) {
    EXPECT_EQ(utf8_sequence(text), text.size());
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(count_code_points(text), 1U);
  }
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndWhatIsTooGreat) {
  for (const std::string& text :
       {"\x80"s, "\xBF"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x80\x80"s, "\xE0\x9F\xBF"s,
        "\xED\xA0\x80"s, "\xED\xBF\xBF"s, "\xF0\x80\x80\x80"s, "\xF0\x8F\xBF\xBF"s,
        "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\xFE"s, "\xFF"s}) {
    EXPECT_EQ(utf8_sequence(text), 0U);
    EXPECT_EQ(valid_utf8_prefix("0123456789" + text), 10U);
  }
}

TEST(Utf8, RefusesSequencesThatAreCutOrBroken) {
  for (const std::string& text : {"\xC3"s, "\xC3("s, "\xE2\x82"s, "\xE2(\xA1"s, "\xE2\x82("s,
                                  "\xF0\x9F\x92"s, "\xF0\x9F\x92("s, "\xF0(\x92\xA9"s}) {
    EXPECT_EQ(utf8_sequence(text), 0U);
    EXPECT_FALSE(is_valid_utf8(text));
  }
  EXPECT_EQ(utf8_sequence(""), 0U);
  EXPECT_TRUE(is_valid_utf8(""));
}

TEST(Utf8, FindsABadByteAtEveryDistanceFromAWordBoundary) {
  for (std::size_t before = 0; before < 20; ++before) {
    for (std::size_t after = 0; after < 20; ++after) {
      const std::string text = std::string(before, 'a') + "\xFF" + std::string(after, 'b');
      EXPECT_EQ(valid_utf8_prefix(text), before);
    }
  }
}

TEST(Utf8, CountsCodePointsNotBytes) {
  EXPECT_EQ(count_code_points(""), 0U);
  EXPECT_EQ(count_code_points("aä€😀"), 4U);
}

TEST(Utf8, FindsControlCharactersOfAllThreeRanges) {
  EXPECT_EQ(find_control("plain ä€😀\xC2\xA0"), "plain ä€😀\xC2\xA0"s.size());
  EXPECT_EQ(find_control("a\tb"), 1U);
  EXPECT_EQ(find_control("ab\x7F"), 2U);
  EXPECT_EQ(find_control("ab\xC2\x85"), 2U);
  EXPECT_EQ(find_control("\0"s), 0U);
}

TEST(Utf8, AppendsWhatItReads) {
  std::string text;
  for (const char32_t code_point : {U'a', U'ä', U'€', U'😀'}) append_utf8(text, code_point);
  EXPECT_EQ(text, "aä€😀");
}

TEST(ErrorText, StaysAsItIsIfItIsValid) {
  for (const std::string& text : {""s, "connection refused"s, "größer"s, std::string(4'000, 'x')}) {
    EXPECT_EQ(cut_error_text(text), text);
  }
}

TEST(ErrorText, IsCutToFourThousandCodePointsOfAnySize) {
  EXPECT_EQ(cut_error_text(std::string(4'001, 'x')), std::string(4'000, 'x'));
  std::string wide;
  for (int i = 0; i < 4'001; ++i) wide += "😀";
  EXPECT_EQ(cut_error_text(wide), wide.substr(0, wide.size() - 4));
  EXPECT_EQ(count_code_points(cut_error_text(std::string(5'000, '\xFF'))), 4'000U);
}

TEST(ErrorText, ReplacesNulAndEveryInvalidByte) {
  EXPECT_EQ(cut_error_text("a\0b"s), "a\xEF\xBF\xBD"s + "b");
  EXPECT_EQ(cut_error_text("\xED\xA0\x80!"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD!");
  EXPECT_EQ(cut_error_text("cut \xE2\x82"), "cut \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ErrorText, IsValidWhateverTheBytes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string noise(random() % 6'000, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    const std::string stored = cut_error_text(noise);
    ASSERT_TRUE(is_valid_utf8(stored));
    ASSERT_LE(count_code_points(stored), 4'000U);
    ASSERT_EQ(stored.find('\0'), std::string::npos);
  }
}

using namespace std::string_literals;

std::string fault_of(const std::string& value) {
  try {
    check_name("colour", value, 5);
  } catch (const MisuseError& error) {
    return error.what();
  }
  return "";
}

TEST(CheckText, AcceptsTheLimitInCodePoints) {
  EXPECT_EQ(fault_of("a"), "");
  EXPECT_EQ(fault_of("abcde"), "");
  EXPECT_EQ(fault_of("äöü€😀"), "");
  EXPECT_NO_THROW(check_text("colour", "", 5));
}

TEST(CheckText, NamesTheFieldTheValueAndWhatIsAllowed) {
  EXPECT_EQ(fault_of(""), "colour is \"\", 1 to 5 characters are needed");
  EXPECT_EQ(fault_of("abcdef"), "colour is 6 characters long, at most 5 are allowed: \"abcdef\"");
  EXPECT_EQ(fault_of("äöü€😀!"), "colour is 6 characters long, at most 5 are allowed: \"äöü€😀!\"");
  EXPECT_EQ(fault_of("a\0b"s), "colour must not contain NUL, as it does at byte 1: \"a\\x00b\"");
  EXPECT_EQ(fault_of("ab\xFF"), "colour must be UTF-8, which it is not at byte 2: \"ab\\xff\"");
}

}  // namespace
}  // namespace outbox
