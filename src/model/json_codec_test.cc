#include "outbox/spi/json_codec.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::string_literals;

std::string encode(const Headers& headers) { return default_json_codec()->encode(headers); }
Headers decode(std::string_view text) { return default_json_codec()->decode(text); }

TEST(JsonCodec, WritesNoHeadersAsEmptyText) { EXPECT_EQ(encode({}), ""); }

TEST(JsonCodec, ReadsBlankTextAndNullAsNoHeaders) {
  for (const char* text : {"", " ", " \t\r\n", "null", " null\n", "{}", " { } "}) {
    EXPECT_EQ(decode(text), Headers{}) << text;
  }
}

TEST(JsonCodec, EscapesOnlyWhatMustBeEscaped) {
  EXPECT_EQ(encode({{"b", "2"}, {"a", "1"}}), R"({"a":"1","b":"2"})");
  EXPECT_EQ(encode({{"k", "/ ä€😀 \x7F"}}), "{\"k\":\"/ ä€😀 \x7F\"}");
  EXPECT_EQ(encode({{"k", "\"\\\b\f\n\r\t\0\x1F"s}}), R"({"k":"\"\\\b\f\n\r\t\u0000\u001f"})");
}

TEST(JsonCodec, ReadsEveryEscape) {
  EXPECT_EQ(decode(R"({"k":"\"\\\/\b\f\n\r\t"})"), (Headers{{"k", "\"\\/\b\f\n\r\t"}}));
  EXPECT_EQ(decode(R"({"\u006B":"\u00e4\u20AC\ud83d\ude00\uFFFF\u0000"})"),
            (Headers{{"k", "ä€😀\xEF\xBF\xBF\0"s}}));
  EXPECT_EQ(decode(R"({"k":"\uD800\uDC00\uDBFF\uDFFF"})"),
            (Headers{{"k", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"}}));
}

TEST(JsonCodec, ReadsSpaceBetweenAllTokens) {
  EXPECT_EQ(decode("\n{ \"a\" :\t\"1\" ,\r\n\"b\":\"2\" } "), (Headers{{"a", "1"}, {"b", "2"}}));
}

TEST(JsonCodec, KeepsEmptyKeysAndValues) {
  EXPECT_EQ(decode(encode({{"", ""}})), (Headers{{"", ""}}));
}

struct Bad {
  std::string text;
  std::size_t offset;
};

TEST(JsonCodec, RefusesWhatIsNotOneObjectOfStringsAndSaysWhere) {
  const Bad table[] = {
      {"[]", 0},
      {"\"text\"", 0},
      {" true", 1},
      {"1", 0},
      {"nil", 0},
      {"null null", 5},
      {R"(["a","b"])", 0},
      {R"({"a":1})", 5},
      {R"({"a":null})", 5},
      {R"({"a":true})", 5},
      {R"({"a": []})", 6},
      {R"({"a":{}})", 5},
      {R"({"a":"1","b":2})", 13},
      {R"({"a":"1"} {"b":"2"})", 10},
      {R"({"a":"1"}x)", 9},
      {R"({"a":"1",})", 9},
      {R"({"a":"1")", 8},
      {R"({"a":"1)", 7},
      {R"({"a"})", 4},
      {R"({"a":})", 5},
      {R"({a:"1"})", 1},
      {R"({"a":"1" "b":"2"})", 9},
      {R"({"a":"1","a":"2"})", 9},
      {R"({"a":"1","\u0061":"1"})", 9},
      {R"({"a":"\x"})", 7},
      {R"({"a":"\u00g0"})", 10},
      {R"({"a":"\ud800"})", 6},
      {R"({"a":"\ud800x"})", 6},
      {R"({"a":"\ud800\n"})", 6},
      {R"({"a":"\ud800\u0041"})", 6},
      {R"({"a":"\ud800\ud800"})", 6},
      {R"({"a":"x\udc00"})", 7},
      {R"({"\udfff":"1"})", 2},
      {"{\"a\":\"1\n\"}", 7},
      {"{\"a\":\"\0\"}"s, 6},
      {"\0"s, 0},
      {"{\"a\":\"\xFF\"}", 6},
      {"{\"a\":\"\xC3\"}", 6},
      {"\xEF\xBB\xBF{}", 0},
      {"\xC2\xA0", 0},  // a no-break space is not blank
  };
  for (const Bad& bad : table) {
    try {
      decode(bad.text);
      ADD_FAILURE() << "accepted " << bad.text;
    } catch (const PermanentError& error) {
      const std::string place = " at byte " + std::to_string(bad.offset);
      EXPECT_TRUE(std::string(error.what()).ends_with(place)) << bad.text << ": " << error.what();
    }
  }
}

TEST(JsonCodec, NamesTheDuplicateKeyButNoValue) {
  try {
    decode(R"({"token":"secret","token":"secret"})");
    FAIL();
  } catch (const PermanentError& error) {
    EXPECT_STREQ(error.what(),
                 "headers are not a JSON object of strings: duplicate key \"token\" at byte 18");
  }
}

TEST(JsonCodec, RefusesToWriteWhatItCouldNotRead) {
  EXPECT_THROW(encode({{"k", "\xFF"}}), MisuseError);
  EXPECT_THROW(encode({{"\xFF", "v"}}), MisuseError);
}

TEST(JsonCodec, ReadsDeeplyNestedTextWithoutOverflowingTheStack) {
  EXPECT_THROW(decode("{\"a\":" + std::string(1'000'000, '[')), PermanentError);
}

std::string random_text(std::mt19937& random) {
  std::string text;
  for (auto n = random() % 20; n > 0; --n) {
    constexpr char32_t kEnds[] = {0x20, 0x80, 0x800, 0xD800, 0x10000, 0x110000};
    auto code_point = static_cast<char32_t>(random() % kEnds[random() % std::size(kEnds)]);
    if (0xD800 <= code_point && code_point <= 0xDFFF) code_point = U'"';
    append_utf8(text, code_point);
  }
  return text;
}

TEST(JsonCodec, RandomHeadersComeBackByteForByte) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2'000; ++round) {
    Headers headers;
    for (auto n = random() % 6; n > 0; --n) headers[random_text(random)] = random_text(random);
    const std::string text = encode(headers);
    ASSERT_EQ(decode(text), headers) << text;
    ASSERT_TRUE(headers.empty() || !check_json(text)) << text;
  }
}

TEST(JsonCodec, EitherReadsOrRefusesWhateverTheBytes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr std::string_view kBytes = "{}[]\":,\\u0dD8cCn \n\x01\xC3\xA4\xFF";
  const std::string good = R"({"a":"\ud83d\ude00","b" : "x\n","ä":""})";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (auto n = random() % 4; n > 0; --n) {
      const std::size_t at = random() % (text.size() + 1);
      const std::size_t cut = random() % 2 == 0 ? 1 : random() % 10;
      const std::string put(random() % 3, kBytes[random() % kBytes.size()]);
      text.replace(at, cut, put);
    }
    try {
      const Headers headers = decode(text);
      ASSERT_EQ(decode(encode(headers)), headers) << text;
    } catch (const PermanentError&) {
    }
  }
}

}  // namespace
}  // namespace outbox
