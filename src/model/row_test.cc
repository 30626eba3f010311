#include "outbox/row.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "outbox/error.h"
#include "support/stores.h"

namespace outbox {
namespace {

using test::contains;
using test::message_of;

ResultRow row_of(const std::string& column, Value value) {
  return {std::make_shared<const ResultRow::Columns>(ResultRow::Columns{column}),
          {std::move(value)}};
}

template <class T>
std::string refused(Value value) {
  const ResultRow row = row_of("cents", std::move(value));
  return message_of<MisuseError>([&] { static_cast<void>(row.get<T>("cents")); });
}

TEST(ResultRow, GivesValuesByTheIndexAndTheNameOfTheColumn) {
  const ResultRow row(
      std::make_shared<const ResultRow::Columns>(ResultRow::Columns{"id", "note", "bytes", "part"}),
      {std::int64_t{42}, "a note", Blob{"\x01"}, 0.5});
  EXPECT_EQ(row.size(), 4u);
  EXPECT_EQ(row.get<int>("id"), 42);
  EXPECT_EQ(row.get<int>(0), 42);
  EXPECT_EQ(row.get<std::uint64_t>("id"), 42u);
  EXPECT_EQ(row.get<double>("id"), 42.0);
  EXPECT_EQ(row.get<std::string>("note"), "a note");
  EXPECT_EQ(row.get<std::string>(1), "a note");
  EXPECT_EQ(row.get<Blob>("bytes"), Blob{"\x01"});
  EXPECT_EQ(row.get<double>("part"), 0.5);
  EXPECT_EQ(row.get<Value>("part"), Value{0.5});
  EXPECT_EQ(row.at("id"), Value{std::int64_t{42}});
}

TEST(ResultRow, NullIsAnEmptyOptionalAndNothingElse) {
  EXPECT_EQ(row_of("cents", nullptr).get<std::optional<int>>("cents"), std::nullopt);
  EXPECT_EQ(row_of("cents", std::int64_t{7}).get<std::optional<int>>("cents"), 7);
  EXPECT_EQ(refused<int>(nullptr),
            "column \"cents\" is NULL, not an integer of 32 bits: ask for "
            "a std::optional");
}

TEST(ResultRow, NumbersMayBeTextsThatAreNothingElse) {
  EXPECT_EQ(row_of("cents", "-120").get<int>("cents"), -120);
  EXPECT_EQ(row_of("cents", "18446744073709551615").get<std::uint64_t>("cents"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(row_of("cents", "1.25").get<double>("cents"), 1.25);
  for (const char* text : {"", "12x", " 12", "1.5", "99999999999999999999"}) {
    EXPECT_TRUE(contains(refused<std::int64_t>(text), "\"cents\" is the text")) << text;
  }
}

TEST(ResultRow, NamesTheColumnAndTheValueThatDoesNotFit) {
  EXPECT_EQ(refused<int>(std::int64_t{1} << 40),
            "column \"cents\" is 1099511627776, not an integer of 32 bits");
  EXPECT_EQ(refused<std::uint8_t>(std::int64_t{-1}),
            "column \"cents\" is -1, not an integer of 8 bits");
  EXPECT_EQ(refused<std::uint64_t>(std::int64_t{-1}),
            "column \"cents\" is -1, not an integer without a sign");
  EXPECT_EQ(refused<bool>(std::int64_t{2}), "column \"cents\" is 2, not a bool");
  EXPECT_EQ(refused<int>("abc"), "column \"cents\" is the text \"abc\", not an integer of 32 bits");
  EXPECT_EQ(refused<int>(1.5), "column \"cents\" is 1.500000, not an integer of 32 bits");
  EXPECT_EQ(refused<double>("abc"), "column \"cents\" is the text \"abc\", not a number");
  EXPECT_EQ(refused<std::string>(std::int64_t{1}), "column \"cents\" is 1, not a text");
  EXPECT_EQ(refused<std::string>(Blob{"abc"}), "column \"cents\" is 3 bytes, not a text");
  EXPECT_EQ(refused<Blob>("abc"), "column \"cents\" is the text \"abc\", not a Blob");
}

TEST(ResultRow, NamesTheColumnsThatThereAre) {
  const ResultRow row = row_of("cents", std::int64_t{1});
  EXPECT_EQ(message_of<MisuseError>([&] { static_cast<void>(row.get<int>("euros")); }),
            "the row has no column \"euros\": it has \"cents\"");
  EXPECT_EQ(message_of<MisuseError>([&] { static_cast<void>(row.get<int>(1)); }),
            "the row has no column 1: it has 1, counted from 0");
}

TEST(Parameter, RefersToTextsAndBytesWithoutACopy) {
  const std::string text(100, 'x');
  const std::array<std::byte, 2> bytes{std::byte{1}, std::byte{2}};
  const Blob blob{"abc"};
  EXPECT_EQ(std::get<std::string_view>(Parameter(text).held()).data(), text.data());
  EXPECT_EQ(std::get<std::string_view>(Parameter(std::string_view(text)).held()).data(),
            text.data());
  EXPECT_EQ(std::get<Parameter::Bytes>(Parameter(std::span(bytes)).held()).data(), bytes.data());
  EXPECT_EQ(std::get<Parameter::Bytes>(Parameter(blob).held()).size(), 3u);
}

TEST(Parameter, TakesNumbersNullsOptionalsAndValues) {
  EXPECT_EQ(std::get<std::int64_t>(Parameter(7).held()), 7);
  EXPECT_EQ(std::get<std::int64_t>(Parameter(true).held()), 1);
  EXPECT_EQ(std::get<double>(Parameter(0.5F).held()), 0.5);
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(Parameter(nullptr).held()));
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(Parameter(std::optional<int>()).held()));
  EXPECT_EQ(std::get<std::int64_t>(Parameter(std::optional(7)).held()), 7);
  EXPECT_EQ(std::get<std::string_view>(Parameter("text").held()), "text");
  const Value value = std::string("held");
  EXPECT_EQ(std::get<std::string_view>(Parameter(value).held()), "held");
}

}  // namespace
}  // namespace outbox
