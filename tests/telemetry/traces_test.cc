// Spans of a whole outbox, as a real collector understands them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "client/http/client.h"
#include "collector.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/telemetry/otlp.h"
#include "outbox/telemetry/tracing.h"
#include "outbox/testing.h"
#include "telemetry/otlp/json.h"

namespace outbox::telemetry_tests {
namespace {

using namespace std::chrono_literals;

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kSpan = "b7ad6b7169203331";

// What an attribute must look like is what the collector shows of a string.
std::string str(const std::string& text) { return "Str(" + text + ")"; }

TEST(TracesTest, ACollectorUnderstandsTheSpansOfAnOutbox) {
  const Collector collector;
  testing::RecordingLog log;
  const auto exporter = std::make_shared<otlp::Exporter>(
      otlp::Options{.endpoint = collector.url(),
                    .service_name = "shop",
                    .resource = {{"deployment.environment", "a \"test\" \\ ü"}},
                    .log = log.log()});
  const auto tracing = std::make_shared<Tracing>(exporter);
  const std::string odd_type = "Placed \"now\" \\ ü 😀";
  Listeners on;
  on.add("Order", odd_type, [](const Event&, const Delivery& delivery) {
    if (delivery.attempt == 1) throw std::runtime_error("say \"no\" \xff");
  });
  std::string id;
  {
    Outbox box{memory::open(),
               on,
               {.retry = {.policy = std::make_shared<ExponentialBackoff>(
                              ExponentialBackoffOptions{.base = 1ms, .max = 1ms})},
                .interceptors = {tracing},
                .hooks = {tracing},
                .log = log.log()}};
    box.start();
    const TraceScope scope{parse_trace("00-" + kTrace + "-" + kSpan + "-01", "congo=t61")};
    auto tx = box.begin();
    id = tx.write({.type = odd_type, .aggregate_type = "Order", .payload = json("{}")});
    tx.commit();
    ASSERT_TRUE(box.wait_idle(20s));
  }
  ASSERT_TRUE(exporter->close(20s));
  EXPECT_EQ(exporter->counts().sent, 3u);
  EXPECT_FALSE(log.contains("otlp"));

  const auto received = collector.wait_for(3);
  ASSERT_TRUE(received) << collector.said();
  ASSERT_EQ(received->size(), 3u);
  const ReceivedSpan& create = (*received)[0];
  const ReceivedSpan& failed = (*received)[1];
  const ReceivedSpan& done = (*received)[2];
  for (const ReceivedSpan& span : *received) {
    EXPECT_EQ(span.trace_id, kTrace);
    EXPECT_EQ(span.state, "congo=t61");
    EXPECT_EQ(span.resource.at("service.name"), str("shop"));
    EXPECT_EQ(span.resource.at("deployment.environment"), str("a \"test\" \\ ü"));
    EXPECT_EQ(span.attributes.at("messaging.system"), str("outbox"));
    EXPECT_EQ(span.attributes.at("messaging.destination.name"), str("Order/" + odd_type));
    EXPECT_EQ(span.attributes.at("messaging.message.id"), str(id));
  }
  EXPECT_EQ(create.name, "create Order/" + odd_type);
  EXPECT_EQ(create.kind, "SPAN_KIND_PRODUCER");
  EXPECT_EQ(create.parent_id, kSpan);
  EXPECT_EQ(create.status, "STATUS_CODE_UNSET");
  EXPECT_EQ(create.attributes.at("messaging.operation.type"), str("create"));

  EXPECT_EQ(failed.name, "process Order/" + odd_type);
  EXPECT_EQ(failed.kind, "SPAN_KIND_CONSUMER");
  EXPECT_EQ(failed.parent_id, create.id);
  EXPECT_EQ(failed.status, "STATUS_CODE_ERROR");
  EXPECT_EQ(failed.status_message, "say \"no\" \xef\xbf\xbd");
  EXPECT_EQ(failed.attributes.at("error.type"), str("outbox::RetryableError"));
  EXPECT_EQ(failed.attributes.at("messaging.operation.type"), str("process"));
  EXPECT_EQ(failed.attributes.at("messaging.outbox.message.delivery_attempt"), "Int(1)");

  EXPECT_EQ(done.parent_id, create.id);
  EXPECT_EQ(done.status, "STATUS_CODE_UNSET");
  EXPECT_EQ(done.attributes.at("messaging.outbox.message.delivery_attempt"), "Int(2)");
  EXPECT_FALSE(done.attributes.contains("error.type"));
}

// The judge is judged too: what we send is accepted because it is right.
TEST(TracesTest, TheCollectorRefusesWhatIsMalformed) {
  const Collector collector;
  otlp::HttpPost http{collector.url(), {}};
  const auto status = [&](const std::string& body) {
    return http.post(body, [] { return std::chrono::steady_clock::now() + 20s; }).status;
  };
  const std::vector<Span> spans{
      {.name = "x", .context = *parse_trace("00-" + kTrace + "-" + kSpan + "-01")}};
  const std::string good = otlp::request_json(otlp::resource_json("shop", {}), spans);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    if (at == text.npos) throw std::logic_error(from);
    return text.replace(at, from.size(), to);
  };
  EXPECT_EQ(status(good), 200);
  EXPECT_EQ(status(with(kTrace, "not hexadecimal")), 400);
  EXPECT_EQ(status(with("\"x\"", "\"x")), 400);
  EXPECT_EQ(status(with("\"x\"", "\"\n\"")), 400);
  EXPECT_EQ(status(with("\"x\"", "\"\xff\"")), 400);
  EXPECT_EQ(status(with("\"kind\":4", "\"kind\":\"four\"")), 400);
  EXPECT_EQ(status(with("\"startTimeUnixNano\":\"0\"", "\"startTimeUnixNano\":true")), 400);
  const auto received = collector.wait_for(1);
  ASSERT_TRUE(received) << collector.said();
  EXPECT_EQ(received->size(), 1u);
}

}  // namespace
}  // namespace outbox::telemetry_tests
