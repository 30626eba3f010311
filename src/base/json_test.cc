#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

#include "outbox/event.h"

namespace outbox {
namespace {

using namespace std::string_literals;

TEST(JsonCheck, AcceptsEveryKindOfValue) {
  for (const std::string& text : {"null"s,
                                  "true"s,
                                  "false"s,
                                  "0"s,
                                  "-0"s,
                                  "12"s,
                                  "-1.50e+10"s,
                                  "1E5"s,
                                  "0.1e-2"s,
                                  "\"\""s,
                                  "\"a\""s,
                                  "[]"s,
                                  "{}"s,
                                  "[[]]"s,
                                  "[{}]"s,
                                  "[1,2,3]"s,
                                  R"({"a":1})"s,
                                  R"({"a":{"b":[1,"x",null]},"c":false})"s,
                                  " \t\r\n[ 1 , 2 ] \n"s,
                                  R"({ "a" : 1 , "b" : 2 })"s,
                                  R"({"a":1,"a":2})"s,
                                  R"("\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00")"s,
                                  "\"ä€😀\x7F\""s}) {
    const auto fault = check_json(text);
    EXPECT_FALSE(fault) << text << ": " << fault->what << " at " << fault->offset;
  }
}

TEST(JsonCheck, AcceptsLoneSurrogatesInEscapesAsTheGrammarDoes) {
  EXPECT_FALSE(check_json(R"("\ud800")"));
  EXPECT_FALSE(check_json(R"("\udc00\ud800")"));
}

struct Bad {
  std::string text;
  std::size_t offset;
};

TEST(JsonCheck, RefusesWhatIsNotJsonAndSaysWhere) {
  const Bad table[] = {
      {"", 0},
      {"  ", 2},
      {"\xEF\xBB\xBF{}", 0},  // a byte order mark
      {"nul", 0},
      {"nulL", 0},
      {"True", 0},
      {"NaN", 0},
      {"Infinity", 0},
      {"undefined", 0},
      {"+1", 0},
      {"-", 1},
      {"-a", 1},
      {"01", 1},
      {"-01", 2},
      {".5", 0},
      {"1.", 2},
      {"1.e5", 2},
      {"1e", 2},
      {"1e+", 3},
      {"0x10", 1},
      {"1 2", 2},
      {"{} {}", 3},
      {"[1]]", 3},
      {"[", 1},
      {"]", 0},
      {"[1", 2},
      {"[1,", 3},
      {"[1,]", 3},
      {"[,1]", 1},
      {"[1 2]", 3},
      {"[1}", 2},
      {"{", 1},
      {"}", 0},
      {"{]", 1},
      {"{a:1}", 1},
      {"{'a':1}", 1},
      {"{1:1}", 1},
      {R"({"a")", 4},
      {R"({"a":)", 5},
      {R"({"a":})", 5},
      {R"({"a" 1})", 5},
      {R"({"a":1,})", 7},
      {R"({"a":1)", 6},
      {R"({"a":1])", 6},
      {R"({"a":1 "b":2})", 7},
      {R"([1,2 // no comments
         ])",
       5},
      {R"(")", 1},
      {R"("abc)", 4},
      {R"("\)", 2},
      {R"("\x41")", 2},
      {R"("\u12")", 5},
      {R"("\u12g4")", 5},
      {"\"a\nb\"", 2},
      {"\"a\tb\"", 2},
      {"\"a\0b\""s, 2},
      {"{}\0"s, 2},
      {"'a'", 0},
      {"\"\xFF\"", 1},
      {"\"\xC0\x80\"", 1},
      {"\"\xED\xA0\x80\"", 1},
      {"\"\xE2\x82\"", 1},
  };
  for (const Bad& bad : table) {
    const auto fault = check_json(bad.text);
    ASSERT_TRUE(fault) << "accepted " << bad.text;
    EXPECT_EQ(fault->offset, bad.offset) << bad.text << ": " << fault->what;
    EXPECT_FALSE(fault->what.empty());
  }
}

TEST(JsonCheck, DoesNotOverflowTheStackOnDeepNesting) {
  const std::size_t deep = kMaxPayloadBytes / 2;
  EXPECT_EQ(check_json(std::string(kMaxPayloadBytes, '[')).value().offset, kMaxPayloadBytes);
  EXPECT_FALSE(check_json(std::string(deep, '[') + std::string(deep, ']')));
  EXPECT_TRUE(check_json(std::string(deep, '[') + std::string(deep + 1, ']')));
}

TEST(JsonCheck, RemembersTheKindOfEveryBracketAtAnyDepth) {
  for (const int depth : {1, 63, 64, 65, 127, 128, 129, 1'000}) {
    std::string open;
    std::string close;
    for (int i = 0; i < depth; ++i) {
      const bool object = i % 3 == 0;
      open += object ? R"({"a":)" : "[";
      close.insert(close.begin(), object ? '}' : ']');
    }
    EXPECT_FALSE(check_json(open + "1" + close)) << depth;
    for (std::size_t i = 0; i < close.size(); ++i) {
      std::string wrong = close;
      wrong[i] = wrong[i] == '}' ? ']' : '}';
      const auto fault = check_json(open + "1" + wrong);
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->offset, open.size() + 1 + i);
    }
  }
}

}  // namespace
}  // namespace outbox
