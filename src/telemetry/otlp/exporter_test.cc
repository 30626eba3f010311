#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/json.h"
#include "client/http/server_test_util.h"
#include "outbox/error.h"
#include "outbox/telemetry/otlp.h"
#include "outbox/testing.h"
#include "telemetry/otlp/json.h"

namespace outbox::otlp {
namespace {

using namespace std::chrono_literals;
using testing::RecordingLog;
using testing::Signal;
using Clock = std::chrono::steady_clock;

Span span(const std::string& name) {
  return {.name = name,
          .context = *parse_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")};
}

std::size_t spans_in(const std::string& body) {
  std::size_t n = 0;
  for (std::size_t at = body.find("\"spanId\""); at != body.npos;
       at = body.find("\"spanId\"", at + 1)) {
    ++n;
  }
  return n;
}

TestServer::Handler always(TestServer::Reply reply) {
  return [reply](std::size_t, const TestServer::Request&) { return reply; };
}

class ExporterTest : public ::testing::Test {
 protected:
  void listen(TestServer::Handler handler) {
    server = std::make_unique<TestServer>(std::move(handler));
  }

  // Sends nothing by itself, and is quick otherwise.
  Options options() {
    return {.endpoint = server->url(),
            .interval = 1h,
            .pause = 1ms,
            .max_pause = 2ms,
            .log = log.log()};
  }

  void expect(const Exporter& exporter, std::uint64_t sent, std::uint64_t dropped,
              std::uint64_t failed) {
    const Counts counts = exporter.counts();
    EXPECT_EQ(counts.sent, sent);
    EXPECT_EQ(counts.dropped, dropped);
    EXPECT_EQ(counts.failed, failed);
  }

  RecordingLog log;
  std::unique_ptr<TestServer> server;
};

TEST_F(ExporterTest, PostsJsonWithTheHeadersAndKeepsTheConnection) {
  listen(always({}));
  Options with = options();
  with.headers = {{"Authorization", "Bearer s3cret"}, {"X-Empty", ""}};
  with.service_name = "shop";
  Exporter exporter{with};
  exporter.record(span("one"));
  ASSERT_TRUE(exporter.flush(20s));
  exporter.record(span("two"));
  ASSERT_TRUE(exporter.flush(20s));
  const auto requests = server->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].line, "POST /v1/traces HTTP/1.1");
  EXPECT_EQ(requests[0].headers.at("content-type"), "application/json");
  EXPECT_EQ(requests[0].headers.at("authorization"), "Bearer s3cret");
  EXPECT_TRUE(requests[0].headers.contains("x-empty"));
  EXPECT_NE(requests[0].body.find(R"("stringValue":"shop")"), std::string::npos);
  EXPECT_NE(requests[0].body.find(R"("name":"one")"), std::string::npos);
  EXPECT_NE(requests[1].body.find(R"("name":"two")"), std::string::npos);
  EXPECT_EQ(server->connections(), 1u);
  expect(exporter, 2, 0, 0);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(ExporterTest, SendsWhenABatchIsFull) {
  listen(always({}));
  Options with = options();
  with.batch = 3;
  Exporter exporter{with};
  for (int i = 0; i < 7; ++i) exporter.record(span("x"));
  ASSERT_TRUE(server->wait_for(2));
  ASSERT_TRUE(exporter.flush(20s));
  std::size_t total = 0;
  for (const auto& request : server->requests()) {
    EXPECT_LE(spans_in(request.body), 3u);
    total += spans_in(request.body);
  }
  EXPECT_EQ(total, 7u);
  expect(exporter, 7, 0, 0);
}

TEST_F(ExporterTest, SendsASingleSpanAfterTheInterval) {
  listen(always({}));
  Options with = options();
  with.interval = 50ms;
  Exporter exporter{with};
  const auto begin = Clock::now();
  exporter.record(span("x"));
  ASSERT_TRUE(server->wait_for(1));
  EXPECT_GE(Clock::now() - begin, 50ms);
}

TEST_F(ExporterTest, RepeatsWhatACollectorThatIsOverloadedDidNotTake) {
  listen([](std::size_t number, const TestServer::Request&) {
    constexpr std::array kStatus{429, 502, 503, 504};
    return TestServer::Reply{.status = number < kStatus.size() ? kStatus[number] : 200};
  });
  Exporter exporter{options()};
  exporter.record(span("x"));
  ASSERT_TRUE(exporter.flush(20s));
  const auto requests = server->requests();
  ASSERT_EQ(requests.size(), 5u);
  for (const auto& request : requests) EXPECT_EQ(request.body, requests.front().body);
  expect(exporter, 1, 0, 0);
  for (int i = 0; i < 2'000 && !log.contains("is unreachable"); ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(log.contains("is unreachable"));
  EXPECT_TRUE(log.contains("it answered 429"));
  EXPECT_EQ(log.lines().size(), 1u) << "rate-limited";
}

TEST_F(ExporterTest, RepeatsWhatWasCutOffOnTheWay) {
  listen([](std::size_t number, const TestServer::Request&) {
    return TestServer::Reply{.kind =
                                 number < 2 ? TestServer::Kind::hang_up : TestServer::Kind::answer};
  });
  Exporter exporter{options()};
  exporter.record(span("x"));
  ASSERT_TRUE(exporter.flush(20s));
  EXPECT_GE(server->requests().size(), 3u);
  expect(exporter, 1, 0, 0);
}

TEST_F(ExporterTest, RepeatsARequestThatTookTooLong) {
  listen([](std::size_t number, const TestServer::Request&) {
    return TestServer::Reply{.kind =
                                 number < 1 ? TestServer::Kind::hang : TestServer::Kind::answer};
  });
  Options with = options();
  with.timeout = 2s;
  Exporter exporter{with};
  exporter.record(span("x"));
  ASSERT_TRUE(exporter.flush(20s));
  EXPECT_EQ(server->requests().size(), 2u);
  expect(exporter, 1, 0, 0);
}

TEST_F(ExporterTest, WaitsForACollectorThatIsNotThereYet) {
  listen(always({}));
  const int port = server->port();
  const Options with = options();
  server.reset();
  Exporter exporter{with};
  exporter.record(span("x"));
  EXPECT_FALSE(exporter.flush(50ms));
  for (int i = 0; i < 2'000 && !log.contains("is unreachable"); ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(log.contains("is unreachable"));
  server = std::make_unique<TestServer>(always({}), port);
  ASSERT_TRUE(exporter.flush(20s));
  expect(exporter, 1, 0, 0);
}

TEST_F(ExporterTest, HonoursRetryAfter) {
  listen([](std::size_t number, const TestServer::Request&) {
    return number == 0 ? TestServer::Reply{.status = 503, .headers = "Retry-After: 1\r\n"}
                       : TestServer::Reply{};
  });
  Exporter exporter{options()};
  exporter.record(span("x"));
  ASSERT_TRUE(exporter.flush(20s));
  const auto requests = server->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_GE(requests[1].at - requests[0].at, 990ms);
}

TEST_F(ExporterTest, GivesUpAtOnceWhatIsRefused) {
  for (const int status : {301, 400, 401, 404, 413, 500}) {
    listen(always({.status = status, .headers = "Location: http://127.0.0.1:9/\r\n"}));
    Exporter exporter{options()};
    exporter.record(span("x"));
    exporter.record(span("y"));
    ASSERT_TRUE(exporter.flush(20s));
    EXPECT_EQ(server->requests().size(), 1u) << status;
    expect(exporter, 0, 0, 2);
    EXPECT_TRUE(log.contains("refused 2 spans: it answered " + std::to_string(status)));
  }
}

TEST_F(ExporterTest, GivesUpABatchInTheEndAndGoesOnWithTheNext) {
  std::atomic<bool> healed{false};
  listen([&](std::size_t, const TestServer::Request&) {
    return TestServer::Reply{.status = healed ? 200 : 503};
  });
  Options with = options();
  with.give_up_after = 30ms;
  Exporter exporter{with};
  exporter.record(span("lost"));
  ASSERT_TRUE(exporter.flush(20s));
  expect(exporter, 0, 0, 1);
  healed = true;
  exporter.record(span("sent"));
  ASSERT_TRUE(exporter.flush(20s));
  expect(exporter, 1, 0, 1);
}

TEST_F(ExporterTest, CountsWhatACollectorTookOnlyInPart) {
  listen(always({.body = R"({"partialSuccess":{"rejectedSpans":"2","errorMessage":"x"}})"}));
  Exporter exporter{options()};
  for (int i = 0; i < 5; ++i) exporter.record(span("x"));
  ASSERT_TRUE(exporter.flush(20s));
  expect(exporter, 3, 0, 2);
}

TEST_F(ExporterTest, DropsWhatFindsNoRoomAndNeverWaits) {
  listen(always({.kind = TestServer::Kind::hang}));
  Options with = options();
  with.capacity = 10;
  with.batch = 4;
  Exporter exporter{with};
  for (int i = 0; i < 4; ++i) exporter.record(span("x"));
  ASSERT_TRUE(server->wait_for(1));  // those four are on their way for ever
  for (int i = 0; i < 25; ++i) exporter.record(span("x"));
  expect(exporter, 0, 15, 0);
  EXPECT_FALSE(exporter.close(0ms));
  expect(exporter, 0, 15, 14);
}

TEST_F(ExporterTest, SaysThatACollectorIsTooSlow) {
  Signal go_on;
  listen([&](std::size_t, const TestServer::Request&) {
    go_on.wait();
    return TestServer::Reply{};
  });
  Options with = options();
  with.capacity = 2;
  with.batch = 2;
  Exporter exporter{with};
  for (int i = 0; i < 2; ++i) exporter.record(span("x"));
  ASSERT_TRUE(server->wait_for(1));
  for (int i = 0; i < 5; ++i) exporter.record(span("x"));
  go_on.raise();
  EXPECT_TRUE(exporter.close(20s));
  expect(exporter, 4, 3, 0);
  EXPECT_TRUE(log.contains("is too slow; no room for 3 spans so far"));
}

TEST_F(ExporterTest, CloseSendsWhatIsLeft) {
  listen(always({}));
  Options with = options();
  with.batch = 2;
  Exporter exporter{with};
  for (int i = 0; i < 5; ++i) exporter.record(span("x"));
  EXPECT_TRUE(exporter.close(20s));
  expect(exporter, 5, 0, 0);
  exporter.record(span("late"));
  expect(exporter, 5, 1, 0);
  EXPECT_TRUE(exporter.close(0ms));
  EXPECT_TRUE(exporter.flush(0ms));
}

TEST_F(ExporterTest, CloseEndsInTimeWhenTheCollectorHangs) {
  listen(always({.kind = TestServer::Kind::hang}));
  Options with = options();
  with.timeout = 1h;
  Exporter exporter{with};
  exporter.record(span("x"));
  EXPECT_FALSE(exporter.flush(1ms));
  ASSERT_TRUE(server->wait_for(1));
  const auto begin = Clock::now();
  EXPECT_FALSE(exporter.close(100ms));
  EXPECT_GE(Clock::now() - begin, 100ms);
  EXPECT_LT(Clock::now() - begin, 10s);
  expect(exporter, 0, 0, 1);
}

TEST_F(ExporterTest, CloseEndsInTimeDuringAPause) {
  listen(always({.status = 503, .headers = "Retry-After: 3000\r\n"}));
  Exporter exporter{options()};
  exporter.record(span("x"));
  EXPECT_FALSE(exporter.flush(1ms));
  ASSERT_TRUE(server->wait_for(1));
  const auto begin = Clock::now();
  EXPECT_FALSE(exporter.close(50ms));
  EXPECT_LT(Clock::now() - begin, 10s);
  expect(exporter, 0, 0, 1);
}

TEST_F(ExporterTest, TheDestructorClosesInTime) {
  listen(always({.kind = TestServer::Kind::hang}));
  const auto begin = Clock::now();
  {
    Options with = options();
    with.close_timeout = 20ms;
    Exporter exporter{with};
    exporter.record(span("x"));
  }
  EXPECT_LT(Clock::now() - begin, 10s);
}

TEST_F(ExporterTest, ManyThreadsRecordWithoutLosingCount) {
  listen(always({}));
  Options with = options();
  with.batch = 50;
  with.capacity = 500;
  Exporter exporter{with};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1'000; ++i) exporter.record(span("x"));
    });
  }
  threads.clear();
  EXPECT_TRUE(exporter.close(20s));
  const Counts counts = exporter.counts();
  EXPECT_EQ(counts.sent + counts.dropped, 4'000u);
  std::size_t received = 0;
  for (const auto& request : server->requests()) received += spans_in(request.body);
  EXPECT_EQ(received, counts.sent);
}

TEST_F(ExporterTest, SaysNothingSecret) {
  listen(always({.status = 400}));
  Options with = options();
  with.endpoint += "?key=s3cret";
  with.headers = {{"Authorization", "Bearer s3cret"}};
  Exporter exporter{with};
  exporter.record(span("x"));
  ASSERT_TRUE(exporter.flush(20s));
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_FALSE(log.contains("s3cret"));
  EXPECT_TRUE(log.contains("http://127.0.0.1:" + std::to_string(server->port()) + " refused"));
}

TEST_F(ExporterTest, RefusesInvalidOptions) {
  const auto refuses = [](Options options, const std::string& hint) {
    try {
      const Exporter exporter{std::move(options)};
      ADD_FAILURE() << "accepted; expected: " << hint;
    } catch (const MisuseError& error) {
      EXPECT_NE(std::string(error.what()).find(hint), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("s3cret"), std::string::npos) << error.what();
    }
  };
  refuses({.endpoint = ""}, "endpoint");
  refuses({.endpoint = "localhost"}, "endpoint");
  refuses({.endpoint = "ftp://localhost/s3cret"}, "\"ftp\"");
  refuses({.endpoint = "file:///etc/passwd"}, "\"file\"");
  refuses({.endpoint = "http://user:s3cret@localhost/"}, "use the headers");
  refuses({.headers = {{"a b", "s3cret"}}}, "\"a b\"");
  refuses({.headers = {{"", "s3cret"}}}, "\"\"");
  refuses({.headers = {{"a", "s3cret\r\nb: c"}}}, "control character");
  refuses({.capacity = 0}, "capacity is 0");
  refuses({.batch = 0}, "batch is 0");
  refuses({.interval = 0ms}, "interval is 0 ms");
  refuses({.timeout = -1ms}, "timeout is -1 ms");
  refuses({.pause = 0ms}, "pause is 0 ms");
  refuses({.pause = 10ms, .max_pause = 9ms}, "max_pause");
  refuses({.give_up_after = 0ms}, "give_up_after");
  refuses({.close_timeout = -1ms}, "close_timeout");
}

using namespace std::chrono_literals;
using namespace std::string_literals;

std::string escaped(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(OtlpJsonTest, EscapesWhatJsonDoesNotAllow) {
  EXPECT_EQ(escaped(""), R"("")");
  EXPECT_EQ(escaped("a/b ü 😀"), "\"a/b ü 😀\"");
  EXPECT_EQ(escaped(R"(say "hi" \ bye)"), R"("say \"hi\" \\ bye")");
  EXPECT_EQ(escaped("\x00\x1f\n\t\x7f"s), "\"\\u0000\\u001f\\n\\t\x7f\"");
}

TEST(OtlpJsonTest, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(escaped("a\xff"), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(escaped("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(escaped("\xed\xa0\x80!"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!\"");
}

TEST(OtlpJsonTest, WritesARequest) {
  Span first{
      .name = "create Order/Placed",
      .kind = Span::Kind::producer,
      .context = *parse_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1"),
      .start = Time{1'700'000'000'123'456us},
      .end = Time{1'700'000'000'123'457us},
      .attributes = {{"messaging.system", "outbox"}, {"n", std::int64_t{-7}}}};
  Span second = first;
  second.kind = Span::Kind::consumer;
  second.parent = first.context.span_id;
  second.context.state.clear();
  second.start = Time{-1us};
  second.attributes.clear();
  second.failed = true;
  second.error = "no \"luck\"";
  const std::vector<Span> spans{first, second};
  EXPECT_EQ(request_json(resource_json("shop", {{"host.name", "h"}}), spans),
            R"({"resourceSpans":[{"resource":{"attributes":[)"
            R"({"key":"service.name","value":{"stringValue":"shop"}},)"
            R"({"key":"host.name","value":{"stringValue":"h"}}]},)"
            R"("scopeSpans":[{"scope":{"name":"outbox"},"spans":[)"
            R"({"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",)"
            R"("traceState":"a=1","flags":1,"name":"create Order/Placed","kind":4,)"
            R"("startTimeUnixNano":"1700000000123456000","endTimeUnixNano":"1700000000123457000",)"
            R"("attributes":[{"key":"messaging.system","value":{"stringValue":"outbox"}},)"
            R"({"key":"n","value":{"intValue":"-7"}}],"status":{}},)"
            R"({"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",)"
            R"("parentSpanId":"b7ad6b7169203331","flags":1,"name":"create Order/Placed","kind":5,)"
            R"("startTimeUnixNano":"0","endTimeUnixNano":"1700000000123457000",)"
            R"("attributes":[],"status":{"code":2,"message":"no \"luck\""}}]}]}]})");
}

TEST(OtlpJsonTest, ReadsHowManyWereRejected) {
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}})"), 3u);
  EXPECT_EQ(rejected_spans(R"({ "partialSuccess" : { "rejectedSpans" : 12 } })"), 12u);
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":null})"), 0u);
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":)"), 0u);
  EXPECT_EQ(rejected_spans(R"({"rejectedSpans":"many"})"), 0u);
  EXPECT_EQ(rejected_spans(R"({"rejectedSpans":"99999999999999999999999"})"), 0u);
  EXPECT_EQ(rejected_spans(""), 0u);
}

}  // namespace
}  // namespace outbox::otlp
