#include "store/common/table_name.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

using Name = TableName<'`', 10>;

TEST(TableName, IsATableOrOneInASchema) {
  const Name plain = Name::parse("events");
  EXPECT_EQ(plain.text(), "events");
  EXPECT_EQ(plain.qualified(), "`events`");
  EXPECT_EQ(plain.qualified("shard"), "`events_shard`");
  const Name in_schema = Name::parse("shop.events");
  EXPECT_EQ(in_schema.text(), "shop.events");
  EXPECT_EQ(in_schema.qualified("shard"), "`shop`.`events_shard`");
  EXPECT_EQ(in_schema.unqualified("state"), "`events_state`");
}

TEST(TableName, WhatTheServerWouldCutOrMisreadIsRefused) {
  EXPECT_NO_THROW(Name::parse(std::string(10, 's') + "." + std::string(48, 't')));
  EXPECT_THROW(Name::parse(std::string(49, 't')), MisuseError);
  EXPECT_THROW(Name::parse(std::string(11, 's') + ".t"), MisuseError);
  for (const char* text : {"", ".", "a.", ".b", "a.b.c", "a b", "a`b", "1a"}) {
    EXPECT_THROW(Name::parse(text), MisuseError) << text;
  }
}

}  // namespace
}  // namespace outbox
