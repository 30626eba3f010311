#include "store/common/store_config.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

// What the options of the stores have in common.
struct SomeOptions {
  std::size_t connections = 10;
  std::chrono::milliseconds wait_timeout{5'000};
  std::chrono::milliseconds statement_timeout{30'000};
  std::shared_ptr<const JsonCodec> codec{};
  Logger log{};
  const Clock* clock = nullptr;
};

std::string refusal(SomeOptions options) {
  try {
    resolved(std::move(options), "shop", "each costs");
    return "none";
  } catch (const MisuseError& error) {
    return error.what();
  }
}

TEST(StoreOptions, WhatWasLeftOutIsFilledIn) {
  const SomeOptions options = resolved(SomeOptions{}, "shop");
  EXPECT_TRUE(options.codec);
  EXPECT_TRUE(options.log);
  EXPECT_EQ(options.clock, &host_clock());
}

TEST(StoreOptions, AWaitForEverCanBeAddedToAnyTime) {
  const SomeOptions options =
      resolved(SomeOptions{.wait_timeout = std::chrono::milliseconds::max()}, "x");
  EXPECT_EQ(options.wait_timeout, std::chrono::hours{24 * 365});
  EXPECT_EQ(resolved(SomeOptions{.statement_timeout = std::chrono::milliseconds::max()}, "x")
                .statement_timeout,
            std::chrono::hours{24 * 365});
}

TEST(StoreOptions, APoolHasAtLeastOneConnectionAndNotTooMany) {
  EXPECT_EQ(refusal({.connections = 1}), "none");
  EXPECT_EQ(refusal({.connections = 0}), "shop::Options::connections is 0: it needs at least 1");
  EXPECT_EQ(refusal({.connections = 10'001}),
            "shop::Options::connections is 10001: at most 10000 are allowed, because each costs");
}

TEST(StoreOptions, NobodyWaitsForLessThanNothing) {
  EXPECT_EQ(refusal({.wait_timeout = 0ms}), "none");
  EXPECT_EQ(refusal({.wait_timeout = -1ms}), "shop::Options::wait_timeout is negative: -1 ms");
  EXPECT_EQ(refusal({.statement_timeout = 0ms}), "none");
  EXPECT_EQ(refusal({.statement_timeout = -1ms}),
            "shop::Options::statement_timeout is negative: -1 ms");
}

}  // namespace

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
