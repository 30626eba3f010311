// What the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "client/redis/connection.h"
#include "support/services.h"
#include "support/stores.h"

namespace outbox::redis {

class RedisTest : public ::testing::Test {
 protected:
  void SetUp() override { OUTBOX_NEEDS_REDIS(); }

  static ConnectOptions target() { return ConnectOptions::parse(test::redis_url()); }

  static std::string text(Connection& connection, std::initializer_list<std::string_view> words) {
    const ReplyHandle reply = connection.command(words);
    return reply->str == nullptr ? std::string() : std::string(reply->str, reply->len);
  }
};

}  // namespace outbox::redis
