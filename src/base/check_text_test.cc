#include "base/check_text.h"

#include <gtest/gtest.h>

#include "outbox/error.h"

namespace outbox {
namespace {

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
