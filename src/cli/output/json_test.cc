#include "cli/output/json.h"

#include <gtest/gtest.h>

#include "base/json_check.h"

namespace outbox::cli {
namespace {

TEST(JsonOutput, StringsAreEscapedAndValid) {
  EXPECT_EQ(json_string("a\"b\\c\n\r\t"), R"("a\"b\\c\n\r\t")");
  EXPECT_EQ(json_string(std::string("\0\x1b\x7f", 3)), R"("\u0000\u001b\u007f")");
  EXPECT_EQ(json_string("\xc3\xa4"), "\"\xc3\xa4\"");
  EXPECT_EQ(json_string("a\xff"
                        "b\xc3"),
            "\"a\xef\xbf\xbd"
            "b\xef\xbf\xbd\"");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_FALSE(check_json(json_string(std::string(1, static_cast<char>(byte))))) << byte;
  }
}

// It may end on somebody's terminal.
TEST(JsonOutput, WhatCommandsATerminalIsEscapedThoughJsonAllowsIt) {
  EXPECT_EQ(json_string("\xc2\x9b"
                        "31m\xc2\x85"),
            R"("\u009b31m\u0085")");
  EXPECT_EQ(json_string("a\u202egnp.exe\u2066\u2028"), R"("a\u202egnp.exe\u2066\u2028")");
  EXPECT_FALSE(check_json(json_string("\u202e\xc2\x9b")));
}

TEST(JsonOutput, BytesAreBase64) {
  // RFC 4648, section 10.
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(JsonOutput, ObjectsKeepTheOrderOfTheirMembers) {
  EXPECT_EQ(JsonObject{}.text(), "{}");
  const JsonObject inner = JsonObject{}.add("x", true);
  const JsonObject object = JsonObject{}
                                .add("z", "text")
                                .add("number", std::int64_t{-7})
                                .add("inner", inner)
                                .add("list", std::vector<JsonObject>{inner, JsonObject{}})
                                .add("numbers", std::vector<int>{1, 2})
                                .add("time", Time{})
                                .add("no_time", std::optional<Time>{})
                                .add("no_number", std::optional<std::int64_t>{})
                                .add_or_null("absent", "")
                                .add_or_null("present", "p");
  EXPECT_EQ(object.text(),
            R"({"z":"text","number":-7,"inner":{"x":true},"list":[{"x":true},{}],"numbers":[1,2],)"
            R"("time":"1970-01-01T00:00:00.000000Z","no_time":null,"no_number":null,)"
            R"("absent":null,"present":"p"})");
  EXPECT_FALSE(check_json(object.text()));
}

}  // namespace
}  // namespace outbox::cli
