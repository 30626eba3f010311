// What the server does with requests, good and bad, on real sockets.
#include "http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "http/raw_client_test_util.h"

namespace outbox::http {
namespace {

using namespace std::chrono_literals;
using ::testing::AssertionResult;

constexpr std::string_view kHost = "Host: localhost\r\n";

std::string get(std::string_view target, std::string_view headers = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\n" + std::string(kHost) +
         std::string(headers) + "\r\n";
}

std::string post(std::string_view target, std::string_view body) {
  return "POST " + std::string(target) + " HTTP/1.1\r\n" + std::string(kHost) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

Routes echo() {
  Routes routes;
  routes.add("GET", "/hello", [](const Request& request) {
    return Response{.content_type = "text/plain", .body = request.target.find("q").value_or("hi")};
  });
  routes.add("POST", "/echo", [](const Request& request) {
    return Response{.content_type = "text/plain", .body = request.body};
  });
  return routes;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Answered with the status and a JSON error that has the words, then closed.
AssertionResult is_refused(RawClient& client, int status, std::string_view words) {
  const auto answer = client.receive();
  if (answer.status != status || !has(answer.body, "{\"error\":\"") || !has(answer.body, words) ||
      !has(answer.head, "\r\nContent-Type: application/json\r\n")) {
    return ::testing::AssertionFailure() << answer.status << '\n' << answer.head << answer.body;
  }
  if (!has(answer.head, "\r\nConnection: close\r\n")) {
    return ::testing::AssertionFailure() << "not announced as the last answer: " << answer.head;
  }
  if (!client.sees_end()) return ::testing::AssertionFailure() << "not closed";
  return ::testing::AssertionSuccess();
}

TEST(Server, AnswersWithWhatTheHandlerMakes) {
  Server server{echo()};
  RawClient client{server.port()};
  const auto answer = client.ask(get("/hello?q=a+b"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "a b");
  EXPECT_TRUE(has(answer.head, "\r\nContent-Type: text/plain\r\n")) << answer.head;
  EXPECT_TRUE(has(answer.head, " GMT\r\n")) << answer.head;
  EXPECT_EQ(client.ask(post("/echo", std::string("a\0b", 3))).body, std::string("a\0b", 3));
}

TEST(Server, PassesHeadersToTheHandlerAndBack) {
  Routes routes;
  routes.add("GET", "/", [](const Request& request) {
    return Response{.status = 202,
                    .body = std::string(request.header("x-a").value_or("")),
                    .headers = {{"X-B", "b"}}};
  });
  Server server{std::move(routes)};
  const auto answer = RawClient{server.port()}.ask(get("/", "X-A: a\r\n"));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(answer.body, "a");
  EXPECT_TRUE(has(answer.head, "\r\nX-B: b\r\n")) << answer.head;
}

TEST(Server, SendsNoBodyToHead) {
  Server server{echo()};
  RawClient client{server.port()};
  client.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto answer = client.receive(true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(has(answer.head, "\r\nContent-Length: 2\r\n")) << answer.head;
  EXPECT_EQ(client.ask(get("/hello")).body, "hi");  // nothing in between
}

TEST(Server, SendsNoBodyWithStatusesThatHaveNone) {
  Routes routes;
  routes.add("GET", "/", [](const Request&) { return Response{.status = 204, .body = "lost"}; });
  Server server{std::move(routes)};
  RawClient client{server.port()};
  EXPECT_EQ(client.ask(get("/")).status, 204);
  EXPECT_EQ(client.ask(get("/")).status, 204);
}

TEST(Server, AnswersUnknownPathsAndMethodsAndStaysConnected) {
  Server server{echo()};
  RawClient client{server.port()};
  EXPECT_EQ(client.ask(get("/nowhere")).status, 404);
  const auto answer = client.ask("DELETE /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(answer.status, 405);
  EXPECT_TRUE(has(answer.head, "\r\nAllow: GET, HEAD\r\n")) << answer.head;
  EXPECT_EQ(client.ask(get("/hello")).status, 200);
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  Server server{echo()};
  RawClient client{server.port()};
  client.send(get("/hello?q=1") + post("/echo", "2") + get("/hello?q=3") + post("/echo", "") +
              get("/hello?q=5", "Connection: close\r\n") + get("/hello?q=never"));
  for (const std::string expected : {"1", "2", "3", "", "5"}) {
    const auto answer = client.receive();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, expected);
  }
  EXPECT_TRUE(client.sees_end());
}

TEST(Server, TakesARequestInPieces) {
  Server server{echo()};
  RawClient client{server.port()};
  for (const char byte : post("/echo", "slowly")) client.send({&byte, 1});
  EXPECT_EQ(client.receive().body, "slowly");
}

TEST(Server, ClosesAfterHttp10UnlessAskedNotTo) {
  Server server{echo()};
  RawClient once{server.port()};
  EXPECT_EQ(once.ask("GET /hello HTTP/1.0\r\n\r\n").body, "hi");
  EXPECT_TRUE(once.sees_end());
  RawClient kept{server.port()};
  const std::string request = "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  EXPECT_EQ(kept.ask(request).body, "hi");
  EXPECT_EQ(kept.ask(request).body, "hi");
}

TEST(Server, AnswersAClientThatHasFinishedSending) {
  Server server{echo()};
  RawClient client{server.port()};
  client.send(get("/hello"));
  client.shutdown_sending();
  EXPECT_EQ(client.receive().body, "hi");
  EXPECT_TRUE(client.sees_end());
}

TEST(Server, RefusesMalformedRequests) {
  Server server{echo()};
  const std::string host(kHost);
  const std::vector<std::pair<int, std::string>> bad = {
      {400, "\r\n\r\n"},
      {400, "GET\r\n\r\n"},
      {400, "GET /hello\r\n\r\n"},
      {505, "GET /hello HTTP/2.0\r\n" + host + "\r\n"},
      {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {505, "GET /hello HTTQ/1.1\r\n" + host + "\r\n"},
      {505, "GET /hello HTTP/1.7\r\n" + host + "\r\n"},
      {400, "G\x01T /hello HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET  /hello HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET hello HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /%zz HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /hello?q=%00 HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET /hello HTTP/1.1\r\n\r\n"},  // no Host
      {400, "GET /hello HTTP/1.1\r\n" + host + host + "\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "no colon\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "a b: c\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + "a: \x01\r\n\r\n"},
      {400, "GET /hello HTTP/1.1\r\n" + host + ": empty\r\n\r\n"},
      {400, "POST /echo HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n"},
      {400, "POST /echo HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n"},
      {400, "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n"},
      {400, "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
      {400, "POST /echo HTTP/1.1\r\n" + host +
                "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na"},
      {400, "POST /echo HTTP/1.1\r\n" + host +
                "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\na"},
      {400, "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
      {400, "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"},
      {501, "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\nab"},
      {501, "POST /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {417, "POST /echo HTTP/1.1\r\n" + host + "Content-Length: 1\r\nExpect: tea\r\n\r\na"},
      {414, get("/hello?q=" + std::string(kMaxTargetBytes, 'a'))},
  };
  for (const auto& [status, request] : bad) {
    RawClient client{server.port()};
    client.send(request);
    client.shutdown_sending();
    EXPECT_TRUE(is_refused(client, status, "")) << request;
  }
  EXPECT_EQ(RawClient{server.port()}.ask(get("/hello")).status, 200);
}

TEST(Server, RefusesARequestThatEndsInTheMiddle) {
  Server server{echo()};
  for (const std::string& request :
       {std::string("GET /hel"), get("/hello").substr(0, 30), post("/echo", "abc").substr(0, 60)}) {
    RawClient client{server.port()};
    client.send(request);
    client.shutdown_sending();
    EXPECT_TRUE(is_refused(client, 400, "malformed")) << request;
  }
}

TEST(Server, RefusesHeadersThatAreTooLarge) {
  Server server{echo(), {.max_header_bytes = 2'048}};
  RawClient line{server.port()};
  line.send(get("/hello", "A: " + std::string(100'000, 'a') + "\r\n"));
  EXPECT_TRUE(is_refused(line, 431, "2048"));

  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "A: b\r\n";
  RawClient lines{server.port()};
  lines.send(get("/hello", many));
  EXPECT_TRUE(is_refused(lines, 431, "2048"));

  RawClient start{server.port()};
  start.send(std::string(100'000, 'G'));
  EXPECT_TRUE(is_refused(start, 431, "2048"));

  RawClient good{server.port()};
  EXPECT_EQ(good.ask(get("/hello", "A: " + std::string(1'500, 'a') + "\r\n")).status, 200);
}

TEST(Server, RefusesBodiesThatAreTooLarge) {
  Server server{echo(), {.max_body_bytes = 1'000}};
  RawClient fits{server.port()};
  EXPECT_EQ(fits.ask(post("/echo", std::string(1'000, 'a'))).body.size(), 1'000U);

  RawClient announced{server.port()};
  announced.send(post("/echo", std::string(1'001, 'a')));
  EXPECT_TRUE(is_refused(announced, 413, "1000"));

  // The answer arrives although the client has not stopped sending yet.
  RawClient sending{server.port()};
  sending.send(post("/echo", std::string(5'000'000, 'a')));
  EXPECT_TRUE(is_refused(sending, 413, "1000"));
}

TEST(Server, RefusesChunkedBodiesThatAreTooLarge) {
  Server server{echo(), {.max_body_bytes = 1'000}};
  const std::string head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "64\r\n" + std::string(100, 'a') + "\r\n";

  RawClient fits{server.port()};
  std::string request = head;
  for (int i = 0; i < 10; ++i) request += chunk;
  EXPECT_EQ(fits.ask(request + "0\r\n\r\n").body.size(), 1'000U);
  EXPECT_EQ(fits.ask(get("/hello")).body, "hi");

  RawClient small_chunks{server.port()};
  small_chunks.send(request + chunk + chunk);
  EXPECT_TRUE(is_refused(small_chunks, 413, "1000"));

  RawClient one_chunk{server.port()};
  one_chunk.send(head + "FFFFFFFF\r\n" + std::string(100'000, 'a'));
  EXPECT_TRUE(is_refused(one_chunk, 413, "1000"));

  RawClient overflow{server.port()};
  overflow.send(head + "FFFFFFFFFFFFFFFFFF\r\n");
  overflow.shutdown_sending();
  EXPECT_TRUE(is_refused(overflow, 400, ""));

  RawClient extension{server.port()};
  extension.send(head + "1;" + std::string(100'000, 'a'));
  EXPECT_TRUE(is_refused(extension, 400, ""));
}

TEST(Server, KeepsTrailersApartFromHeaders) {
  Routes routes;
  routes.add("POST", "/", [](const Request& request) {
    return Response{.body = std::string(request.header("X-Admin").value_or("none"))};
  });
  Server server{std::move(routes)};
  RawClient client{server.port()};
  EXPECT_EQ(client
                .ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "1\r\na\r\n0\r\nX-Admin: yes\r\n\r\n")
                .body,
            "none");
}

TEST(Server, TellsAClientThatAsksToGoOn) {
  Server server{echo()};
  RawClient client{server.port()};
  client.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  EXPECT_EQ(client.ask("abc").body, "abc");
}

TEST(Server, TellsAHandlersRefusalToTheClient) {
  Routes routes;
  routes.add("GET", "/", [](const Request& request) {
    return Response{.body = request.target.require("name")};
  });
  Server server{std::move(routes)};
  RawClient client{server.port()};
  const auto answer = client.ask(get("/"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, "{\"error\":\"the parameter \\\"name\\\" is missing\"}\n");
  EXPECT_EQ(client.ask(get("/?name=Ada")).body, "Ada");
}

TEST(Server, TellsNoInternalsToTheClient) {
  Mutex mutex;
  std::string logged;
  Routes routes;
  routes.add("GET", "/error",
             [](const Request&) -> Response { throw std::runtime_error("password=secret"); });
  routes.add("GET", "/other", [](const Request&) -> Response { throw 42; });
  routes.add("GET", "/split", [](const Request&) {
    return Response{.headers = {{"X-A", "secret\r\nSet-Cookie: a=b"}}};
  });
  routes.add("GET", "/name", [](const Request&) { return Response{.headers = {{"secret:", ""}}}; });
  routes.add("GET", "/status", [](const Request&) { return Response{.status = 0}; });
  Server server{std::move(routes), {.log = [&](const LogRecord& record) {
                  const MutexLock lock(mutex);
                  logged.append(record.message).append("\n");
                }}};
  for (const std::string path : {"/error", "/other", "/split", "/name", "/status"}) {
    RawClient client{server.port()};
    const auto answer = client.ask(get(path));
    EXPECT_EQ(answer.status, 500) << path;
    EXPECT_FALSE(has(answer.head + answer.body, "secret")) << answer.head << answer.body;
    const MutexLock lock(mutex);
    EXPECT_TRUE(has(logged, "GET \"" + path + "\"")) << logged;
  }
  const MutexLock lock(mutex);
  EXPECT_TRUE(has(logged, "password=secret")) << logged;
}

TEST(Server, RefusesInvalidOptions) {
  EXPECT_THROW(Server(Routes(), {.address = "localhost"}), MisuseError);
  EXPECT_THROW(Server(Routes(), {.workers = 0}), MisuseError);
  EXPECT_THROW(Server(Routes(), {.max_connections = 0}), MisuseError);
  EXPECT_THROW(Server(Routes(), {.max_header_bytes = 1}), MisuseError);
  EXPECT_THROW(Server(Routes(), {.request_timeout = 0ms}), MisuseError);
}

TEST(Server, SaysWhichPortIsTaken) {
  Server server{echo()};
  try {
    Server second{echo(), {.port = server.port()}};
    FAIL() << "two servers on one port";
  } catch (const PermanentError& error) {
    EXPECT_TRUE(has(error.what(), "port " + std::to_string(server.port()))) << error.what();
  }
}

}  // namespace
}  // namespace outbox::http
