#include "client/redis/connection.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "client/redis/hiredis.h"
#include "client/redis/test_support.h"
#include "outbox/error.h"
#include "outbox/testing.h"
#include "support/stores.h"
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

TEST_F(RedisConnectionTest, CarriesLargeValuesBothWays) {
  Connection connection(target(), {.answer = 20s});
  std::string large(std::size_t{1} << 20, ' ');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 7);
  EXPECT_TRUE(text(connection, {"ECHO", large}) == large);
}

TEST_F(RedisConnectionTest, ManyCommandsTakeOneRoundTrip) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::redis_url()));
  ConnectOptions by_proxy = target();
  by_proxy.port = proxy.port();
  Connection connection(by_proxy, {.answer = 20s});
  constexpr std::size_t kCommands = 1'000;
  const std::string padding(1'000, 'x');  // so that they do not fit into one packet
  for (std::size_t i = 0; i < kCommands; ++i) {
    if (i == 500) {
      connection.append({"NO-SUCH-COMMAND"});
    } else {
      connection.append({"ECHO", std::to_string(i) + padding});
    }
  }
  EXPECT_EQ(connection.outstanding(), kCommands);
  EXPECT_FALSE(connection.reusable());
  EXPECT_THROW(connection.command({"PING"}), MisuseError) << "its reply would be another's";
  connection.flush();
  for (std::size_t i = 0; i < kCommands; ++i) {
    const ReplyHandle reply = connection.next_reply();
    if (i == 500) {
      EXPECT_EQ(reply->type, REDIS_REPLY_ERROR);
    } else {
      ASSERT_EQ(std::string(reply->str, reply->len), std::to_string(i) + padding);
    }
  }
  EXPECT_TRUE(connection.reusable());
  EXPECT_THROW(connection.next_reply(), MisuseError);
  EXPECT_EQ(text(connection, {"PING"}), "PONG");

  // Without flush() as well; and what is lost is lost with all that was outstanding.
  connection.append({"PING"});
  EXPECT_STREQ(connection.next_reply()->str, "PONG");
  proxy.drop_reply("last");
  connection.append({"ECHO", "first"});
  connection.append({"ECHO", "last"});
  EXPECT_THROW(connection.next_reply(), UnavailableError);
  EXPECT_EQ(connection.outstanding(), 0U);
  EXPECT_FALSE(connection.reusable());
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

TEST_F(RedisConnectionTest, AnUnreachableServerIsUnavailable) {
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

class RedisClientTest : public RedisTest {
 protected:
  void SetUp() override {
    RedisTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    proxy_ = std::make_unique<test::TcpProxy>("127.0.0.1", test::port_of(test::redis_url()));
  }

  std::unique_ptr<Client> make(ClientOptions options = {}) {
    options.log = log_.log();
    ConnectOptions by_proxy = target();
    by_proxy.port = proxy_->port();
    return std::make_unique<Client>(by_proxy, options);
  }

  bool works(Client& client) {
    try {
      client.take()->command({"PING"});
      return true;
    } catch (const UnavailableError&) {
      return false;
    }
  }

  testing::RecordingLog log_;
  std::unique_ptr<test::TcpProxy> proxy_;
};

TEST_F(RedisClientTest, ConnectsWhenItIsNeededAndUsesConnectionsAgain) {
  const auto client = make();
  EXPECT_EQ(proxy_->accepted(), 0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(works(*client));
  EXPECT_EQ(proxy_->accepted(), 1);
}

TEST_F(RedisClientTest, ManyUsersShareNoMoreConnectionsThanAllowed) {
  const auto client = make({.connections = 2, .wait_timeout = 0ms});
  auto first = client->take();
  const auto second = client->take();
  EXPECT_TRUE(contains(message_of<UnavailableError>([&] { client->take(); }),
                       "all 2 are in use; raise redis::Options::connections"));
  first.reset();
  EXPECT_TRUE(works(*client));
}

TEST_F(RedisClientTest, ConnectionsThatWereCutAreReplaced) {
  const auto client = make();
  {
    const auto first = client->take();
    const auto second = client->take();
  }
  proxy_->cut();
  EXPECT_TRUE(test::eventually([&] { return works(*client); }));
  EXPECT_TRUE(works(*client));
}

TEST_F(RedisClientTest, AnUnreachableServerIsNotAskedByEveryCallAndIsFoundAgain) {
  const auto client = make();
  ASSERT_TRUE(works(*client));
  proxy_->refuse();
  proxy_->cut();
  EXPECT_TRUE(test::eventually([&] { return !works(*client); }));
  EXPECT_TRUE(test::eventually([&] {
    return contains(message_of<UnavailableError>([&] { client->take(); }),
                    "the next attempt is made in");
  }));
  proxy_->admit();
  EXPECT_TRUE(test::eventually([&] { return works(*client); }));
  EXPECT_TRUE(log_.contains("cannot connect to Redis"));
  EXPECT_TRUE(log_.contains("Redis is available again"));
  EXPECT_EQ(log_.lines().size(), 2U) << "once each";
}

TEST_F(RedisClientTest, AForkedChildIsRefused) {
  const auto client = make();
  ASSERT_TRUE(works(*client));
  const pid_t child = fork();
  if (child == 0) {
    try {
      client->take();
    } catch (const MisuseError&) {
      _exit(42);
    } catch (...) {
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST_F(RedisClientTest, InvalidOptionsAreRefused) {
  EXPECT_THROW(make({.connections = 0}), MisuseError);
  EXPECT_THROW(make({.wait_timeout = -1ms}), MisuseError);
  EXPECT_THROW(make({.timeouts = {.connect = 0ms}}), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { make({.timeouts = {.answer = 0ms}}); }),
                       "timeout is 0 ms"));
  EXPECT_THROW(make({.timeouts = {.answer = std::chrono::milliseconds::max()}}), MisuseError);
}

}  // namespace

}  // namespace outbox::redis
