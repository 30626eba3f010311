#include "support/tcp_proxy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "support/sockets.h"

namespace outbox::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kReset = "(reset)";
constexpr const char* kEnd = "(end)";
constexpr const char* kNothing = "(nothing)";

bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Sends back what it gets, and ends a connection when the client has.
class EchoServer {
 public:
  EchoServer() : listener_(listen_on_loopback(0)), thread_([this] { run(); }) {}
  ~EchoServer() { shutdown(listener_.number(), SHUT_RDWR); }

  int port() const { return local_port(listener_); }

 private:
  void run() {
    name_this_thread("echo");
    std::vector<Descriptor> clients;
    while (true) {
      std::vector<pollfd> events{{.fd = listener_.number(), .events = POLLIN, .revents = 0}};
      for (const Descriptor& client : clients) {
        events.push_back({.fd = client.number(), .events = POLLIN, .revents = 0});
      }
      poll(events.data(), events.size(), -1);
      for (std::size_t i = clients.size(); i > 0; --i) {
        if (events[i].revents != 0 && !echo(clients[i - 1])) {
          clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i) - 1);
        }
      }
      if (events[0].revents == 0) continue;
      Descriptor client(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.open()) return;
      clients.push_back(std::move(client));
    }
  }

  static bool echo(const Descriptor& client) {
    std::array<char, 4096> bytes;
    const ssize_t size = recv(client.number(), bytes.data(), bytes.size(), 0);
    return size > 0 && send(client.number(), bytes.data(), static_cast<std::size_t>(size),
                            MSG_NOSIGNAL) == size;
  }

  Descriptor listener_;
  std::jthread thread_;
};

class Client {
 public:
  explicit Client(int port) : socket_(connect_to_loopback(port)) {}

  void say(const std::string& text) {
    ASSERT_EQ(send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  // So many bytes, or what came instead.
  std::string hear(std::size_t size, std::chrono::milliseconds timeout = 20s) {
    const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
    setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string result;
    while (result.size() < size) {
      std::array<char, 4096> bytes;
      const ssize_t got =
          recv(socket_.number(), bytes.data(), std::min(bytes.size(), size - result.size()), 0);
      if (got == 0) return result + kEnd;
      if (got < 0 && errno == ECONNRESET) return result + kReset;
      if (got < 0) return result + kNothing;
      result.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return result;
  }

  std::string echo_of(const std::string& text) {
    say(text);
    return hear(text.size());
  }

  void end() { shutdown(socket_.number(), SHUT_WR); }

 private:
  Descriptor socket_;
};

class TcpProxyTest : public ::testing::Test {
 protected:
  EchoServer server_;
  TcpProxy proxy_{"127.0.0.1", server_.port()};
};

TEST_F(TcpProxyTest, PassesOnWhatItGets) {
  Client one(proxy_.port());
  Client two(proxy_.port());
  EXPECT_EQ(one.echo_of("one"), "one");
  EXPECT_EQ(two.echo_of("two"), "two");
  EXPECT_EQ(one.echo_of("again"), "again");
  EXPECT_EQ(proxy_.connections(), 2);
  EXPECT_EQ(proxy_.drops(), 0);
}

TEST_F(TcpProxyTest, PassesOnMoreThanItKeeps) {
  Client client(proxy_.port());
  std::string text(5'000'000, 'x');
  for (std::size_t i = 0; i < text.size(); i += 1000) text[i] = static_cast<char>('a' + i % 23);
  std::string heard;
  {
    const std::jthread reader([&] { heard = client.hear(text.size()); });
    client.say(text);
  }
  EXPECT_TRUE(heard == text) << heard.size();
}

TEST_F(TcpProxyTest, PassesOnTheEndAfterAllThatCameBefore) {
  Client client(proxy_.port());
  client.say("last words");
  client.end();
  EXPECT_EQ(client.hear(100), std::string("last words") + kEnd);
  EXPECT_TRUE(eventually([&] { return proxy_.connections() == 0; }));
}

TEST_F(TcpProxyTest, CutsAllConnections) {
  Client one(proxy_.port());
  Client two(proxy_.port());
  ASSERT_EQ(one.echo_of("1"), "1");
  ASSERT_EQ(two.echo_of("2"), "2");
  proxy_.cut();
  EXPECT_EQ(proxy_.connections(), 0);
  EXPECT_EQ(one.hear(1), kReset);
  EXPECT_EQ(two.hear(1), kReset);
  EXPECT_EQ(Client(proxy_.port()).echo_of("new"), "new");
}

TEST_F(TcpProxyTest, RefusesNewConnectionsAndKeepsTheOldOnes) {
  Client old(proxy_.port());
  ASSERT_EQ(old.echo_of("1"), "1");
  proxy_.refuse();
  proxy_.refuse();
  EXPECT_THROW(Client(proxy_.port()), std::system_error);
  EXPECT_EQ(old.echo_of("2"), "2");
  proxy_.admit();
  proxy_.admit();
  EXPECT_EQ(Client(proxy_.port()).echo_of("3"), "3");
}

TEST_F(TcpProxyTest, StallsAndResumes) {
  Client client(proxy_.port());
  ASSERT_EQ(client.echo_of("before"), "before");
  proxy_.stall();
  client.say("meanwhile");
  Client late(proxy_.port());
  late.say("late");
  EXPECT_EQ(client.hear(1, 100ms), kNothing);
  EXPECT_EQ(late.hear(1, 1ms), kNothing);
  proxy_.resume();
  EXPECT_EQ(client.hear(9), "meanwhile");
  EXPECT_EQ(late.hear(4), "late");
}

TEST_F(TcpProxyTest, AStalledConnectionCanBeCut) {
  Client client(proxy_.port());
  ASSERT_EQ(client.echo_of("1"), "1");
  proxy_.stall();
  proxy_.cut();
  EXPECT_EQ(client.hear(1), kReset);
}

TEST_F(TcpProxyTest, DropsOneRequest) {
  Client other(proxy_.port());
  Client client(proxy_.port());
  ASSERT_EQ(client.echo_of("COMMIT of before"), "COMMIT of before");
  proxy_.drop_request("COMMIT");
  EXPECT_EQ(client.echo_of("BEGIN"), "BEGIN") << "only what comes later counts";
  client.say("COMMIT");
  EXPECT_EQ(client.hear(1), kReset);
  EXPECT_EQ(proxy_.drops(), 1);
  EXPECT_EQ(other.echo_of("COMMIT"), "COMMIT") << "only once";
}

TEST_F(TcpProxyTest, DropsOneReply) {
  Client other(proxy_.port());
  Client client(proxy_.port());
  proxy_.drop_reply("COMMIT");
  EXPECT_EQ(client.echo_of("BEGIN"), "BEGIN");
  client.say("COMMIT");
  EXPECT_EQ(client.hear(1), kReset);
  EXPECT_EQ(proxy_.drops(), 1);
  EXPECT_EQ(other.echo_of("COMMIT"), "COMMIT") << "only once";
}

TEST_F(TcpProxyTest, FindsATextThatComesInPieces) {
  proxy_.drop_request("COMMIT");
  Client client(proxy_.port());
  EXPECT_EQ(client.echo_of("CO"), "CO");
  EXPECT_EQ(client.echo_of("MMI"), "MMI");
  client.say("T");
  EXPECT_EQ(client.hear(1), kReset);
}

TEST_F(TcpProxyTest, LosesAllOfTheReplyUntilItsEnd) {
  proxy_.drop_reply("COMMIT", "END");
  Client client(proxy_.port());
  client.say("COMMIT");
  EXPECT_EQ(client.hear(1, 100ms), kNothing);
  EXPECT_EQ(proxy_.drops(), 0);
  client.say(" E");
  client.say("ND");
  EXPECT_EQ(client.hear(1), kReset);
  EXPECT_EQ(proxy_.drops(), 1);
}

TEST_F(TcpProxyTest, HoldsWhatComesBehindATextAndKeepsTheConnection) {
  Client held(proxy_.port());
  Client other(proxy_.port());
  EXPECT_EQ(held.echo_of("before"), "before");
  proxy_.hold_request("here");
  held.say("up to he");
  EXPECT_EQ(held.hear(8), "up to he");
  held.say("re and no further");
  EXPECT_TRUE(eventually([&] { return proxy_.held() == 1; }));
  EXPECT_EQ(held.hear(1, 100ms), kNothing) << "nor does an answer come";
  EXPECT_EQ(other.echo_of("here"), "here") << "once";
  EXPECT_EQ(proxy_.connections(), 2);
}

TEST_F(TcpProxyTest, RefusesToLookForNothing) {
  EXPECT_THROW(proxy_.drop_request(""), std::invalid_argument);
  EXPECT_THROW(proxy_.drop_reply(std::string(1025, 'x')), std::invalid_argument);
}

// --- COMMIT, as MySQL's protocol has it ---

class CommitCutTest : public ::testing::Test {
 protected:
  static std::string query(const std::string& sql) {
    const std::string header{static_cast<char>(sql.size() + 1), 0, 0, 0, 3};
    return header + sql;
  }
  void expect_cuts(int before, int during, int after) {
    const CommitCuts cuts = proxy_.commit_cuts();
    EXPECT_EQ(cuts.before, before);
    EXPECT_EQ(cuts.during, during);
    EXPECT_EQ(cuts.after, after);
  }

  EchoServer server_;
  TcpProxy proxy_{"127.0.0.1", server_.port(), Wire::mysql};
  Client client_{proxy_.port()};
};

TEST_F(CommitCutTest, LosesTheConnectionAtACommitAndAtNothingElse) {
  for (const CommitCut where : {CommitCut::before, CommitCut::during, CommitCut::after}) {
    const int drops = proxy_.drops();
    proxy_.cut_commit(where);
    Client client(proxy_.port());
    const std::string other = query("SELECT 'COMMIT', 'READ COMMITTED'");
    EXPECT_EQ(client.echo_of(other), other);
    client.say(query("COMMIT"));
    EXPECT_EQ(client.hear(1), kReset);
    EXPECT_EQ(proxy_.drops(), drops + 1);
    EXPECT_EQ(client_.echo_of(query("COMMIT")), query("COMMIT")) << "only once";
  }
  expect_cuts(1, 1, 1);
}

TEST_F(CommitCutTest, CountsWhoWaitedForTheAnswerWhenAllWereCut) {
  // It answers nothing.
  const Descriptor silent = listen_on_loopback(0);
  TcpProxy proxy("127.0.0.1", local_port(silent), Wire::mysql);
  Client waits(proxy.port());
  Client other(proxy.port());
  const Descriptor at_server(accept4(silent.number(), nullptr, nullptr, SOCK_CLOEXEC));
  waits.say(query("COMMIT"));
  other.say(query("SELECT 1"));
  std::array<char, 64> bytes;
  ASSERT_GT(recv(at_server.number(), bytes.data(), bytes.size(), 0), 0);
  proxy.cut();
  EXPECT_EQ(waits.hear(1), kReset);
  EXPECT_EQ(proxy.commit_cuts().during, 1);
}

TEST_F(CommitCutTest, DoesNotCountWhoHasTheAnswer) {
  EXPECT_EQ(client_.echo_of(query("COMMIT")), query("COMMIT"));
  proxy_.cut();
  expect_cuts(0, 0, 0);
}

TEST(TcpProxy, CutsTheClientOfAServerThatIsNotThere) {
  const Descriptor nobody = bind_loopback(0);
  TcpProxy proxy("127.0.0.1", local_port(nobody));
  Client client(proxy.port());
  EXPECT_EQ(client.hear(1), kReset);
}

TEST(TcpProxy, ANameInPlaceOfAnAddressIsAnError) {
  EXPECT_THROW(TcpProxy("localhost", 1), std::runtime_error);
}

}  // namespace
}  // namespace outbox::test
