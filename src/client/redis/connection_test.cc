#include "client/redis/connection.h"

#include <signal.h>
#include <unistd.h>

#include <memory>

#include "client/redis/test_support.h"
#include "outbox/error.h"
#include "support/tcp_proxy.h"

namespace outbox::redis {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::message_of;

using RedisConnectionTest = RedisTest;

TEST_F(RedisConnectionTest, CarriesCommandsOfAnyBytes) {
  Connection connection(target(), {});
  const std::string bytes("a\0b\r\n\xff", 6);
  EXPECT_EQ(text(connection, {"ECHO", bytes}), bytes);
  EXPECT_EQ(text(connection, {"ECHO", ""}), "");
  EXPECT_FALSE(connection.lost());
}

TEST_F(RedisConnectionTest, WorksInTheDatabaseOfTheUrl) {
  ConnectOptions third = target();
  third.database = 3;
  Connection connection(third, {});
  EXPECT_TRUE(contains(text(connection, {"CLIENT", "INFO"}), " db=3 "));
  third.database = 100'000;
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { Connection(third, {}); }), "out of range"));
}

TEST_F(RedisConnectionTest, ComesBySocket) {
  Connection by_network(target(), {});
  const ReplyHandle reply = by_network.command({"CONFIG", "GET", "unixsocket"});
  ASSERT_EQ(reply->elements, 2U);
  const std::string path(reply->element[1]->str, reply->element[1]->len);
  Connection connection(ConnectOptions::parse("unix:" + path), {});
  EXPECT_TRUE(contains(text(connection, {"CLIENT", "INFO"}), "addr=" + path));
  EXPECT_TRUE(contains(message_of<UnavailableError>(
                           [&] { Connection(ConnectOptions::parse("unix:/no/such/socket"), {}); }),
                       "/no/such/socket"));
}

TEST_F(RedisConnectionTest, ARefusedLoginIsPermanentAndDoesNotShowThePassword) {
  Connection admin(target(), {});
  const std::string user = "login-test-" + std::to_string(getpid());
  admin.command({"ACL", "SETUSER", user, "on", ">right", "+@all", "~*"});
  ConnectOptions login = target();
  login.user = user;
  login.password = "right";
  EXPECT_EQ(text(*std::make_unique<Connection>(login, Timeouts{}), {"ACL", "WHOAMI"}), user);

  login.password = "tOpSeCrEt";
  const std::string message = message_of<PermanentError>([&] { Connection(login, {}); });
  EXPECT_TRUE(contains(message, "WRONGPASS"));
  EXPECT_TRUE(contains(message, "check the user and the password"));
  EXPECT_EQ(message.find("tOpSeCrEt"), message.npos);

  // No user, where none is needed, is a refusal as well.
  login.user.reset();
  const std::string without = message_of<PermanentError>([&] { Connection(login, {}); });
  EXPECT_TRUE(contains(without, "refuses"));
  EXPECT_EQ(without.find("tOpSeCrEt"), without.npos);
  admin.command({"ACL", "DELUSER", user});
}

TEST_F(RedisConnectionTest, WhatAUserMayNotIsPermanent) {
  Connection admin(target(), {});
  const std::string user = "rights-test-" + std::to_string(getpid());
  admin.command({"ACL", "SETUSER", user, "on", "nopass", "+ping", "~*"});
  ConnectOptions login = target();
  login.user = user;
  Connection connection(login, {});
  EXPECT_TRUE(contains(message_of<PermanentError>([&] {
                         connection.command({"GET", "x"});
                       }),
                       "NOPERM"));
  EXPECT_FALSE(connection.lost());
  EXPECT_EQ(text(connection, {"PING"}), "PONG");
  admin.command({"ACL", "DELUSER", user});
}

TEST_F(RedisConnectionTest, AServerThatIsAwayIsUnavailable) {
  ConnectOptions nobody = target();
  nobody.port = 1;
  EXPECT_TRUE(contains(message_of<UnavailableError>([&] { Connection(nobody, {}); }),
                       "cannot connect to Redis (127.0.0.1:1/0)"));
  nobody.host = "no-such-host.invalid";
  EXPECT_THROW(Connection(nobody, {}), UnavailableError);
}

TEST_F(RedisConnectionTest, AnAnswerThatTakesTooLongLosesTheConnection) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::redis_url()));
  ConnectOptions by_proxy = target();
  by_proxy.port = proxy.port();
  Connection connection(by_proxy, {.answer = 2s});
  proxy.stall();
  EXPECT_TRUE(contains(message_of<UnavailableError>([&] { connection.command({"PING"}); }),
                       "no answer within 2000 ms"));
  EXPECT_TRUE(connection.lost());
  EXPECT_TRUE(connection.timed_out());
  EXPECT_FALSE(connection.healthy());
}

TEST_F(RedisConnectionTest, AConnectionThatWasCutWhileItLayIdleIsNotHealthy) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::redis_url()));
  ConnectOptions by_proxy = target();
  by_proxy.port = proxy.port();
  Connection connection(by_proxy, {});
  EXPECT_TRUE(connection.healthy());
  proxy.cut();
  EXPECT_TRUE(test::eventually([&] { return !connection.healthy(); }));
}

TEST_F(RedisConnectionTest, AServerThatHasGoneRaisesNoSignal) {
  struct sigaction fatal {};
  sigaction(SIGPIPE, nullptr, &fatal);
  ASSERT_EQ(fatal.sa_handler, SIG_DFL) << "the test would prove nothing";
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::redis_url()));
  ConnectOptions by_proxy = target();
  by_proxy.port = proxy.port();
  Connection connection(by_proxy, {});
  proxy.cut();
  ASSERT_TRUE(test::eventually([&] { return !connection.healthy(); }));
  // The first may still find room; the second one would be the end.
  EXPECT_THROW(connection.command({"PING"}), UnavailableError);
  EXPECT_THROW(connection.command({"PING"}), UnavailableError);
  EXPECT_TRUE(connection.lost());
  EXPECT_FALSE(connection.timed_out());
}

}  // namespace
}  // namespace outbox::redis
