#include "core/quote.h"

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

TEST(Quote, PutsALongTextOnOneLineWithoutCuttingIt) {
  EXPECT_EQ(printable(std::string(100, 'a') + "\n"), std::string(100, 'a') + "\\n");
}

}  // namespace
}  // namespace outbox
