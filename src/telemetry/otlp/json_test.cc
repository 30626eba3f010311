#include "telemetry/otlp/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/json.h"

namespace outbox::otlp {
namespace {

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
