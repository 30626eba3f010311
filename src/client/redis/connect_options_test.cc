#include "client/redis/connect_options.h"

#include <gtest/gtest.h>

#include <string>

#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::redis {
namespace {

TEST(RedisTarget, IsReadFromAUrl) {
  const ConnectOptions full = ConnectOptions::parse("redis://shop:s%40cret@db.example:6380/3");
  EXPECT_EQ(full.host, "db.example");
  EXPECT_EQ(full.port, 6380);
  EXPECT_EQ(full.user, "shop");
  EXPECT_EQ(full.password, "s@cret");
  EXPECT_EQ(full.database, 3);
  EXPECT_EQ(full.place(), "db.example:6380/3");

  const ConnectOptions least = ConnectOptions::parse("REDIS://");
  EXPECT_EQ(least.place(), "localhost:6379/0");
  EXPECT_FALSE(least.user);
  EXPECT_FALSE(least.password);

  const ConnectOptions old = ConnectOptions::parse("redis://:secret@h/");
  EXPECT_FALSE(old.user);
  EXPECT_EQ(old.password, "secret");
  EXPECT_EQ(ConnectOptions::parse("redis://default:@h").password, "");
  EXPECT_EQ(ConnectOptions::parse("redis://[::1]:7/1").host, "::1");
  EXPECT_EQ(ConnectOptions::parse("redis://[::1]:7/1").port, 7);
}

TEST(RedisTarget, MayBeASocket) {
  const ConnectOptions plain = ConnectOptions::parse("unix:/run/redis/redis.sock");
  EXPECT_EQ(plain.socket, "/run/redis/redis.sock");
  EXPECT_EQ(plain.database, 0);
  const ConnectOptions full = ConnectOptions::parse("unix://shop:secret@/run/a%20b.sock?db=2");
  EXPECT_EQ(full.socket, "/run/a b.sock");
  EXPECT_EQ(full.user, "shop");
  EXPECT_EQ(full.password, "secret");
  EXPECT_EQ(full.place(), "/run/a b.sock/2");
  EXPECT_EQ(ConnectOptions::parse("unix:///run/x").socket, "/run/x");
}

TEST(RedisTarget, MayAskForTls) {
  const ConnectOptions full = ConnectOptions::parse("rediss://shop:s%40cret@db.example:6380/3");
  EXPECT_TRUE(full.tls);
  EXPECT_EQ(full.place(), "db.example:6380/3");
  EXPECT_EQ(full.password, "s@cret");
  EXPECT_EQ(ConnectOptions::parse("REDISS://h").port, 6379);
  EXPECT_FALSE(ConnectOptions::parse("redis://h").tls);
  EXPECT_FALSE(ConnectOptions::parse("unix:/run/x").tls);
}

TEST(RedisTarget, AUserNeedsAPasswordHoweverEmpty) {
  EXPECT_TRUE(
      test::contains(test::message_of<MisuseError>([] { ConnectOptions::parse("redis://shop@h"); }),
                     "no password"));
}

TEST(RedisTarget, AUrlThatIsNotUnderstoodIsRefusedAndNothingOfItShown) {
  for (const std::string url : {"",
                                "tOpSeCrEt",
                                "redis:tOpSeCrEt",
                                "http://tOpSeCrEt",
                                "redis://h:tOpSeCrEt",
                                "rediss:tOpSeCrEt",
                                "rediss://u:a@tOpSeCrEt@h",
                                "redis://h/tOpSeCrEt",
                                "redis://h:0",
                                "redis://h:65536",
                                "redis://h/-1",
                                "redis://h/1/2",
                                "redis://h?db=1",
                                "redis://h#1",
                                "redis://u:a@tOpSeCrEt@h",
                                "redis://u:a/tOpSeCrEt@h",
                                "redis://u:1/tOpSeCrEt@h",
                                "redis://u:%zztOpSeCrEt@h",
                                "redis://u:a?tOpSeCrEt@h",
                                "redis://u:%00@h",
                                "redis://[::1",
                                "redis://[::1]x",
                                "unix:tOpSeCrEt",
                                "unix://",
                                "unix://tOpSeCrEt/x",
                                "unix://u:a@b@/x",
                                "unix:/x?tOpSeCrEt=1",
                                "unix:/x?db=tOpSeCrEt",
                                "unix://u:/tOpSeCrEt@/x",
                                "redis://h/99999999999"}) {
    const std::string message = test::message_of<MisuseError>([&] { ConnectOptions::parse(url); });
    EXPECT_EQ(message.find("tOpSeCrEt"), std::string::npos) << url << ": " << message;
    EXPECT_TRUE(test::contains(message, "cannot be understood")) << url;
  }
}

}  // namespace
}  // namespace outbox::redis
