#include "client/redis/hiredis.h"

#include <gtest/gtest.h>

#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::redis {
namespace {

TEST(RedisError, BeginsWithItsCode) {
  EXPECT_EQ(error_code("READONLY You can't write against a read only replica."), "READONLY");
  EXPECT_EQ(error_code("ERR"), "ERR");
  EXPECT_EQ(error_code(""), "");
}

TEST(RedisError, BeforeRedis7TheCodeIsWithinThatOfTheScript) {
  EXPECT_EQ(error_code("ERR Error running script (call to f_12ab): @user_script:4: @user_script: "
                       "4: -OOM command not allowed when used memory > 'maxmemory'."),
            "OOM");
  EXPECT_EQ(error_code("ERR Error running script (call to f_12ab): no more"), "ERR");
}

TEST(RedisError, WhatPassesIsUnavailableAndSaysWhatToDo) {
  for (const char* error :
       {"LOADING Redis is loading the dataset in memory", "READONLY You can't write", "OOM command",
        "MISCONF Redis is configured to save", "NOREPLICAS Not enough good replicas to write.",
        "MASTERDOWN Link with MASTER is down", "BUSY Redis is busy running a script.",
        "CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys",
        "ERR max number of clients reached"}) {
    const std::string message =
        test::message_of<UnavailableError>([&] { throw_error(error, "h:1/0"); });
    EXPECT_TRUE(test::contains(message, std::string("Redis (h:1/0) refuses: ") + error + "; "));
  }
}

TEST(RedisError, WhatStaysIsPermanent) {
  for (const char* error : {"NOAUTH Authentication required.", "WRONGPASS invalid", "NOPERM no",
                            "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
                            "WRONGTYPE Operation against a key", "ERR syntax error", ""}) {
    const std::string message =
        test::message_of<PermanentError>([&] { throw_error(error, "h:1/0"); });
    EXPECT_TRUE(test::contains(message, error));
  }
}

TEST(RedisError, DoesNotRepeatTheArgumentsNorForgeALine) {
  EXPECT_EQ(error_text("ERR unknown command 'AUTH', with args beginning with: 'tOpSeCrEt' "),
            "ERR unknown command 'AUTH'");
  EXPECT_EQ(error_text("ERR a\nb"), "ERR a\\nb");
}

}  // namespace
}  // namespace outbox::redis
