#include "client/redis/client.h"

#include <sys/wait.h>
#include <unistd.h>

#include "client/redis/test_support.h"
#include "outbox/error.h"
#include "outbox/testing.h"
#include "support/tcp_proxy.h"

namespace outbox::redis {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::message_of;

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

TEST_F(RedisClientTest, AServerThatIsAwayIsNotAskedByEveryCallAndIsFoundAgain) {
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
  EXPECT_TRUE(log_.contains("Redis is back"));
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

TEST_F(RedisClientTest, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(make({.connections = 0}), MisuseError);
  EXPECT_THROW(make({.wait_timeout = -1ms}), MisuseError);
  EXPECT_THROW(make({.timeouts = {.connect = 0ms}}), MisuseError);
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { make({.timeouts = {.answer = 0ms}}); }),
                       "timeout is 0 ms"));
  EXPECT_THROW(make({.timeouts = {.answer = std::chrono::milliseconds::max()}}), MisuseError);
}

}  // namespace
}  // namespace outbox::redis
