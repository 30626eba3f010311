#include "outbox/typed/json_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "outbox/error.h"
#include "typed/domain_event_test_util.h"

namespace outbox {
namespace {

using namespace std::string_literals;
using Kind = JsonValue::Kind;
using shop::error_of;

std::string again(std::string_view text) { return JsonValue::parse(text).dump(); }

TEST(JsonValue, ComesBackAsItWasWrittenWithoutSpaces) {
  for (const char* text :
       {"null", "true", "false", "0", "-0", "1.50", "1E+5", "\"\"", R"("a\"\\\n")", "[]", "[[],{}]",
        "{}", R"({"b":1,"a":[true,null,{"":"ä€😀"}]})", "18446744073709551616",
        "0.1000000000000000055511151231257827"}) {
    EXPECT_EQ(again(text), text);
  }
  EXPECT_EQ(again(" { \"b\" : [ 1 ,\t2 ] ,\n\"a\" : \"\\u00e4\\/\" }\r"),
            R"({"b":[1,2],"a":"ä/"})");
}

TEST(JsonValue, KnowsItsKindAndItsValue) {
  const JsonValue value = JsonValue::parse(R"([null,true,-7,2.5,"ä\u0000"])");
  EXPECT_EQ(value.kind(), Kind::array);
  EXPECT_TRUE(value.at(0).is_null());
  EXPECT_TRUE(value.at(1).as_bool());
  EXPECT_EQ(value.at(2).as_int(), -7);
  EXPECT_EQ(value.at(2).as_double(), -7.0);
  EXPECT_EQ(value.at(3).as_double(), 2.5);
  EXPECT_EQ(value.at(3).as_number(), "2.5");
  EXPECT_EQ(value.at(4).as_string(), "ä\0"s);
  EXPECT_EQ(value.items().size(), 5U);
}

TEST(JsonValue, IsMadeOfWhatCppHas) {
  EXPECT_EQ(JsonValue().dump(), "null");
  EXPECT_EQ(JsonValue(nullptr).dump(), "null");
  EXPECT_EQ(JsonValue(true).dump(), "true");
  EXPECT_EQ(JsonValue("text").dump(), "\"text\"");
  EXPECT_EQ(JsonValue(std::int8_t{-5}).dump(), "-5");
  EXPECT_EQ(JsonValue(std::numeric_limits<std::int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(JsonValue(std::numeric_limits<std::uint64_t>::max()).dump(), "18446744073709551615");
  EXPECT_EQ(JsonValue(0.1).dump(), "0.1");
  EXPECT_EQ(JsonValue(1e300).as_double(), 1e300);
  EXPECT_EQ(JsonValue::number("12.50").dump(), "12.50");
  EXPECT_EQ(JsonValue::array({1, "two", JsonValue::object({{"three", nullptr}})}).dump(),
            R"([1,"two",{"three":null}])");
}

// It would be written as its number.
static_assert(!std::is_constructible_v<JsonValue, char>);

// What it was a part of must not take it along.
TEST(JsonValue, APartCanTakeThePlaceOfTheWhole) {
  const std::string text(100, 'x');
  for (const JsonValue& part :
       {JsonValue(), JsonValue(true), JsonValue::number("123456789012345678"), JsonValue(text),
        JsonValue::array({text, 2}), JsonValue::object({{"inner", text}})}) {
    for (const JsonValue& whole :
         {JsonValue::array({part}), JsonValue::object({{"part", JsonValue::array({part})}})}) {
      const auto part_of = [](JsonValue& value) -> JsonValue& {
        return (value.kind() == Kind::array ? value : value.at("part")).at(0);
      };
      JsonValue moved = whole;
      moved = std::move(part_of(moved));
      EXPECT_EQ(moved, part);
      JsonValue copied = whole;
      copied = part_of(copied);
      EXPECT_EQ(copied, part);
    }
  }
  JsonValue same = JsonValue::array({text});
  JsonValue& alias = same;
  same = alias;
  same = std::move(alias);
  EXPECT_EQ(same, JsonValue::array({text}));
}

TEST(JsonValue, RefusesWhatJsonCannotWrite) {
  EXPECT_NE(error_of<MisuseError>([] { JsonValue(std::nan("")); }).find("finite"),
            std::string::npos);
  for (const char* bad : {"", "x", " 1", "1 ", "01", "1,2", "-", "\"1\"", "true", "[1]", "0x1"}) {
    const std::string error = error_of<MisuseError>([&] { JsonValue::number(bad); });
    EXPECT_NE(error.find("not a number"), std::string::npos) << bad;
  }
  EXPECT_NE(error_of<MisuseError>([] {
              JsonValue::object({{"a", 1}, {"b", 2}, {"a", 3}});
            }).find("\"a\" twice"),
            std::string::npos);
  EXPECT_NE(error_of<MisuseError>([] { JsonValue("\xFF").dump(); }).find("UTF-8"),
            std::string::npos);
}

TEST(JsonValue, RefusesTextThatCannotBeUsedAndSaysWhere) {
  struct Bad {
    std::string text;
    std::string what;
  };
  const Bad table[] = {
      {"", "expected a value at byte 0"},
      {"[1,]", "expected a value at byte 3"},
      {"{} x", "text after the end of the value at byte 3"},
      {"\"\xFF\"", "invalid UTF-8 at byte 1"},
      {R"({"a":1, "b":2, "a":3})", "duplicate key \"a\" at byte 15"},
      {R"({"a":1,"\u0061":2})", "duplicate key \"a\" at byte 7"},
      {R"([{"x":[{"k":1,"k":1}]}])", "duplicate key \"k\" at byte 14"},
      {R"(["\ud800"])", "lone surrogate at byte 2"},
      {R"({"\udc00":1})", "lone surrogate at byte 2"},
      {std::string(129, '[') + std::string(129, ']'), "deeper than 128 levels at byte 128"},
  };
  for (const Bad& bad : table) {
    const std::string error = error_of<PermanentError>([&] { JsonValue::parse(bad.text); });
    EXPECT_NE(error.find(bad.what), std::string::npos) << bad.text << ": " << error;
  }
}

TEST(JsonValue, MayBeAsDeepAsTheLimit) {
  const std::string deepest = std::string(128, '[') + std::string(128, ']');
  EXPECT_EQ(again(deepest), deepest);
  // Deeper ones are refused without recursing into them.
  EXPECT_THROW(JsonValue::parse(std::string(1'000'000, '[') + std::string(1'000'000, ']')),
               PermanentError);
}

TEST(JsonValue, SaysWhatWasFoundAndWhatWasWanted) {
  const JsonValue object = JsonValue::parse(R"({"a":"secret","n":1.5,"big":9223372036854775808})");
  EXPECT_EQ(error_of<PermanentError>([&] { object.at("a").as_int(); }),
            "found a string, wanted an integer");
  EXPECT_EQ(error_of<PermanentError>([&] { object.as_string(); }),
            "found an object, wanted a string");
  EXPECT_EQ(error_of<PermanentError>([&] { object.at("a").at("b"); }),
            "found a string, wanted an object with the key \"b\"");
  EXPECT_EQ(error_of<PermanentError>([&] { object.at("b"); }),
            "found an object without the key \"b\"");
  EXPECT_EQ(error_of<PermanentError>([&] { object.at(std::size_t{1}); }),
            "found an object, wanted an array");
  EXPECT_EQ(error_of<PermanentError>([] { JsonValue::array({1}).at(1); }),
            "found an array of 1 items, wanted item 1");
  EXPECT_EQ(error_of<PermanentError>([] { JsonValue(1).as_bool(); }),
            "found a number, wanted a boolean");
  EXPECT_EQ(error_of<PermanentError>([] { JsonValue().items(); }), "found null, wanted an array");
  EXPECT_THROW(object.at("n").as_int(), PermanentError);
  EXPECT_THROW(object.at("big").as_int(), PermanentError);
  EXPECT_THROW(JsonValue::number("1e999").as_double(), PermanentError);
}

TEST(JsonValue, ObjectsAreChangedInPlaceAndKeepTheirOrder) {
  JsonValue value = JsonValue::parse(R"({"a":1,"b":2,"c":3})");
  value.set("b", "two").set("d", JsonValue::array());
  EXPECT_TRUE(value.erase("a"));
  EXPECT_FALSE(value.erase("a"));
  value.at("d").push(1).push(nullptr);
  EXPECT_EQ(value.dump(), R"({"b":"two","c":3,"d":[1,null]})");
  EXPECT_EQ(value.take("c"), JsonValue(3));
  EXPECT_EQ(value.take("c"), std::nullopt);
  ASSERT_NE(value.find("b"), nullptr);
  *value.find("b") = false;
  EXPECT_EQ(value.find("x"), nullptr);
  EXPECT_EQ(JsonValue(1).find("x"), nullptr);
  EXPECT_EQ(value.members().front().key, "b");
  EXPECT_EQ(value.dump(), R"({"b":false,"d":[1,null]})");
}

TEST(JsonValue, WhatIsNoObjectIsNotMadeOne) {
  JsonValue array = JsonValue::array();
  EXPECT_THROW(array.set("a", 1), PermanentError);
  EXPECT_THROW(array.take("a"), PermanentError);
  EXPECT_THROW(JsonValue().push(1), PermanentError);
}

TEST(JsonValue, IsEqualToWhatIsWrittenAlike) {
  EXPECT_EQ(JsonValue::parse(R"({"a":[1,2]})"), JsonValue::parse(R"( {"a" : [1, 2]} )"));
  EXPECT_NE(JsonValue::parse("1"), JsonValue::parse("1.0"));
  EXPECT_NE(JsonValue::parse("1"), JsonValue::parse("\"1\""));
  EXPECT_NE(JsonValue::parse(R"({"a":1,"b":2})"), JsonValue::parse(R"({"b":2,"a":1})"));
}

TEST(JsonValue, ManyKeysTakeNoLongTime) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text.back() = '}';
  EXPECT_EQ(JsonValue::parse(text).members().size(), 100'000U);
}

}  // namespace
}  // namespace outbox
