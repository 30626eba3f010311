#include "client/redis/connection.h"
#include "client/redis/test_support.h"
#include "outbox/error.h"

namespace outbox::redis {
namespace {

using RedisScriptTest = RedisTest;

TEST_F(RedisScriptTest, RunsWithItsKeyAndArguments) {
  Connection connection(target(), {});
  Script script("return {KEYS[1], ARGV[1], ARGV[2]}");
  const ReplyHandle reply = script.run(connection, "key", {"a", "b"});
  ASSERT_EQ(reply->elements, 3U);
  EXPECT_STREQ(reply->element[0]->str, "key");
  EXPECT_STREQ(reply->element[2]->str, "b");
}

TEST_F(RedisScriptTest, IsSentAgainToAServerThatForgotIt) {
  Connection connection(target(), {});
  Script script("return 7");
  EXPECT_EQ(script.run(connection, "key", {})->integer, 7);
  connection.command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(script.run(connection, "key", {})->integer, 7);
}

TEST_F(RedisScriptTest, WhatFailsInItIsAnError) {
  Connection connection(target(), {});
  Script script("return redis.error_reply('OOM too much')");
  EXPECT_THROW(script.run(connection, "key", {}), UnavailableError);
  Script nonsense("return nonsense(");
  EXPECT_THROW(nonsense.run(connection, "key", {}), PermanentError);
  EXPECT_FALSE(connection.lost());
}

}  // namespace
}  // namespace outbox::redis
