#include "base/quote.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

using namespace std::string_literals;

TEST(Quote, KeepsWhatCanBeRead) {
  EXPECT_EQ(quote(""), "\"\"");
  EXPECT_EQ(quote("Order ä€😀"), "\"Order ä€😀\"");
}

TEST(Quote, CutsAfterSixtyCharacters) {
  EXPECT_EQ(quote(std::string(60, 'a')), '"' + std::string(60, 'a') + '"');
  EXPECT_EQ(quote(std::string(61, 'a')), '"' + std::string(60, 'a') + "…\"");
}

TEST(Quote, EscapesControlCharactersAndInvalidBytes) {
  EXPECT_EQ(quote("a\r\n\tb\0c\x1B\x7F"s), R"("a\r\n\tb\x00c\x1b\x7f")");
  EXPECT_EQ(quote("\xFF\xC2\x85"), R"("\xff\xc2\x85")");
}

// Text that reads backwards looks like another: "gnp.exe" for a picture.
TEST(Quote, EscapesWhatTurnsTheDirectionOfTextOrEndsALine) {
  EXPECT_EQ(printable("a\u202egnp.exe"), "a\\u202egnp.exe");
  for (const char* character :
       {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d",
        "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u206f"}) {
    EXPECT_TRUE(printable(character).starts_with("\\u2") || printable(character) == "\\u061c")
        << printable(character);
  }
  EXPECT_EQ(printable("\u05d0\u0628\u2027\u200d"), "\u05d0\u0628\u2027\u200d")
      << "letters that are written so are no commands";
}

TEST(Quote, KeepsLinesWhereThatIsAskedFor) {
  EXPECT_EQ(printable_lines("a\nb\x1b\r\n"), "a\nb\\x1b\\r\n");
}

TEST(Quote, PutsALongTextOnOneLineWithoutCuttingIt) {
  EXPECT_EQ(printable(std::string(100, 'a') + "\n"), std::string(100, 'a') + "\\n");
}

}  // namespace
}  // namespace outbox
