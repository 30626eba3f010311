// Slow clients, many clients, and the end of the server.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <semaphore>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "http/raw_client_test_util.h"
#include "http/server.h"

namespace outbox::http {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

Routes says(std::string text) {
  Routes routes;
  routes.add("GET", "/", [text](const Request&) { return Response{.body = text}; });
  routes.add("POST", "/", [text](const Request&) { return Response{.body = text}; });
  return routes;
}

// A route that does not come back until it is let go.
struct Gate {
  std::counting_semaphore<> entered{0};
  std::counting_semaphore<> leave{0};
  std::atomic<bool> left{false};

  Routes routes() {
    Routes routes = says("quick");
    routes.add("GET", "/gate", [this](const Request&) {
      entered.release();
      EXPECT_TRUE(leave.try_acquire_for(kClientPatience));
      left = true;
      return Response{.body = "through the gate"};
    });
    return routes;
  }
  bool await_entry() { return entered.try_acquire_for(kClientPatience); }
};

const std::string kGetGate = "GET /gate HTTP/1.1\r\nHost: a\r\n\r\n";

TEST(ServerLimits, ASlowHeaderIsTimedOut) {
  Server server{says("hi"), {.request_timeout = 100ms}};
  RawClient client{server.port()};
  client.send("GET / HT");
  EXPECT_EQ(client.receive().status, 408);
  EXPECT_TRUE(client.sees_end());
}

TEST(ServerLimits, ASlowBodyIsTimedOutHoweverOftenAByteComes) {
  Server server{says("hi"), {.request_timeout = 300ms}};
  RawClient client{server.port()};
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  std::atomic<bool> answered{false};
  std::thread drip([&] {
    while (!answered && client.send("a")) std::this_thread::sleep_for(10ms);
  });
  EXPECT_EQ(client.receive().status, 408);
  answered = true;
  drip.join();
}

TEST(ServerLimits, AnIdleConnectionIsClosedWithoutAWord) {
  Server server{says("hi"), {.request_timeout = 1h, .idle_timeout = 1s}};
  RawClient never{server.port()};
  EXPECT_TRUE(never.sees_end());
  RawClient once{server.port()};
  EXPECT_EQ(once.ask(kGet).status, 200);
  EXPECT_TRUE(once.sees_end());
}

TEST(ServerLimits, AClientThatTakesNoResponseIsCutOff) {
  Routes routes;
  // More than the buffers of both sides take.
  routes.add("GET", "/",
             [](const Request&) { return Response{.body = std::string(50'000'000, 'a')}; });
  routes.add("POST", "/", [](const Request&) { return Response{}; });
  Server server{std::move(routes), {.max_connections = 1, .response_timeout = 200ms}};
  RawClient client{server.port()};
  client.send(kGet);
  // The only place is free again once it is gone.
  const auto deadline = steady_clock::now() + kClientPatience;
  int status = 503;
  while (status == 503 && steady_clock::now() < deadline) {
    status = RawClient{server.port()}.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n").status;
  }
  EXPECT_EQ(status, 200);
  EXPECT_EQ(client.receive().status, 0);
}

TEST(ServerLimits, ASlowHandlerIsNotTimedOut) {
  Gate gate;
  Server server{gate.routes(), {.request_timeout = 1s, .idle_timeout = 1s}};
  RawClient client{server.port()};
  client.send(kGetGate);
  ASSERT_TRUE(gate.await_entry());
  RawClient idle{server.port()};
  EXPECT_TRUE(idle.sees_end());  // that time has passed
  gate.leave.release();
  EXPECT_EQ(client.receive().body, "through the gate");
}

TEST(ServerLimits, OneConnectionTooManyIsToldSo) {
  Server server{says("hi"), {.max_connections = 2}};
  RawClient first{server.port()};
  RawClient second{server.port()};
  EXPECT_EQ(first.ask(kGet).status, 200);
  EXPECT_EQ(second.ask(kGet).status, 200);
  {
    RawClient third{server.port()};
    const auto answer = third.ask(kGet);
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.head.find("\r\nRetry-After: 1\r\n"), std::string::npos) << answer.head;
    EXPECT_TRUE(third.sees_end());
  }
  EXPECT_EQ(first.ask(kGet).status, 200);
}

TEST(ServerLimits, AFloodOfConnectionsIsServedInTheEnd) {
  Server server{says("hi"), {.max_connections = 2, .idle_timeout = 100ms}};
  std::vector<RawClient> flood;
  for (int i = 0; i < 200; ++i) flood.emplace_back(server.port());
  int served = 0;
  for (RawClient& client : flood) {
    RawClient leaves = std::move(client);  // and makes room for those behind it
    const int status = leaves.ask(kGet).status;
    if (status == 200) ++served;
    // 0: it had its time while it waited for its turn in this loop.
    EXPECT_TRUE(status == 200 || status == 503 || status == 0) << status;
  }
  const auto deadline = steady_clock::now() + kClientPatience;
  int status = 503;
  while (status != 200 && steady_clock::now() < deadline) {
    status = RawClient{server.port()}.ask(kGet).status;
  }
  EXPECT_EQ(status, 200) << served << " of the flood were served";
}

TEST(ServerLimits, ManyClientsAtOnceGetTheirOwnAnswers) {
  Routes routes;
  routes.add("GET", "/",
             [](const Request& request) { return Response{.body = request.target.require("q")}; });
  Server server{std::move(routes), {.workers = 3}};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int client = 0; client < 16; ++client) {
    threads.emplace_back([&, client] {
      RawClient connection{server.port()};
      for (int i = 0; i < 100; ++i) {
        const std::string word = std::to_string(client) + "-" + std::to_string(i);
        const auto answer = connection.ask("GET /?q=" + word + " HTTP/1.1\r\nHost: a\r\n\r\n");
        if (answer.status != 200 || answer.body != word) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ServerLimits, HandlersRunAtOnceUpToTheNumberOfWorkers) {
  constexpr int kWorkers = 3;
  std::latch together{kWorkers};
  Routes routes;
  routes.add("GET", "/", [&](const Request&) {
    together.arrive_and_wait();
    return Response{};
  });
  Server server{std::move(routes), {.workers = kWorkers}};
  std::vector<RawClient> clients;
  for (int i = 0; i < kWorkers; ++i) clients.emplace_back(server.port()).send(kGet);
  for (RawClient& client : clients) EXPECT_EQ(client.receive().status, 200);
}

TEST(ServerStop, AnswersWhatIsRunningAndClosesTheRest) {
  Gate gate;
  Server server{gate.routes(), {.workers = 1}};
  RawClient idle{server.port()};
  EXPECT_EQ(idle.ask(kGet).status, 200);
  RawClient running{server.port()};
  running.send(kGetGate);
  ASSERT_TRUE(gate.await_entry());
  RawClient queued{server.port()};
  queued.send(kGet);
  RawClient half{server.port()};
  half.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(half.receive().status, 100);  // so it is being received

  auto stopped = std::async(std::launch::async, [&] { server.stop(); });
  EXPECT_TRUE(idle.sees_end());
  EXPECT_EQ(half.receive().status, 503);
  half.shutdown_sending();
  EXPECT_FALSE(gate.left);
  gate.leave.release();

  const auto answer = running.receive();
  EXPECT_EQ(answer.body, "through the gate");
  EXPECT_NE(answer.head.find("\r\nConnection: close\r\n"), std::string::npos) << answer.head;
  // It was connected, but perhaps not read yet.
  const int queued_status = queued.receive().status;
  EXPECT_TRUE(queued_status == 200 || queued_status == 503 || queued_status == 0) << queued_status;
  EXPECT_TRUE(running.sees_end());
  ASSERT_EQ(stopped.wait_for(kClientPatience), std::future_status::ready);
  EXPECT_THROW(RawClient{server.port()}, std::system_error);
}

TEST(ServerStop, AsksHandlersToComeBack) {
  std::counting_semaphore<> entered{0};
  Routes routes;
  routes.add("GET", "/", [&](const Request& request) {
    entered.release();
    const auto deadline = steady_clock::now() + kClientPatience;
    while (!request.stop.stop_requested() && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(1ms);
    }
    return Response{.status = request.stop.stop_requested() ? 503 : 200};
  });
  Server server{std::move(routes)};
  RawClient client{server.port()};
  client.send(kGet);
  ASSERT_TRUE(entered.try_acquire_for(kClientPatience));
  auto stopped = std::async(std::launch::async, [&] { server.stop(); });
  EXPECT_EQ(client.receive().status, 503);
}

TEST(ServerStop, CutsClientsAfterTheDrainTimeoutAndWaitsForHandlers) {
  Gate gate;
  Server server{gate.routes(), {.workers = 1, .drain_timeout = 50ms}};
  RawClient client{server.port()};
  client.send(kGetGate);
  ASSERT_TRUE(gate.await_entry());
  auto stopped = std::async(std::launch::async, [&] { server.stop(); });
  EXPECT_EQ(client.receive().status, 0);
  EXPECT_EQ(stopped.wait_for(0s), std::future_status::timeout);
  gate.leave.release();
  stopped.get();
  EXPECT_TRUE(gate.left);
}

TEST(ServerStop, IsIdempotentAndWorksFromManyThreads) {
  Server server{says("hi")};
  RawClient client{server.port()};
  EXPECT_EQ(client.ask(kGet).status, 200);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { server.stop(); });
  for (std::thread& thread : threads) thread.join();
  server.stop();
  EXPECT_TRUE(client.sees_end());
}

TEST(ServerStop, EndsUnderLoadWithoutHalfAnswers) {
  for (int round = 0; round < 10; ++round) {
    Server server{says("hi"), {.workers = 2}};
    std::atomic<int> answered{0};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        try {
          RawClient client{server.port()};
          while (true) {
            const auto answer = client.ask(kGet);
            if (answer.status == 0) return;  // closed between two requests
            if (answer.status != 503 && answer.body != "hi") ++wrong;
            ++answered;
          }
        } catch (const std::system_error&) {  // came too late
        }
      });
    }
    const auto deadline = steady_clock::now() + kClientPatience;
    while (answered < 100 && steady_clock::now() < deadline) std::this_thread::yield();
    server.stop();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GE(answered, 100);
  }
}

}  // namespace
}  // namespace outbox::http
