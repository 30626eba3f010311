// Metrics and traces.
#include <iostream>
#include <memory>
#include <string>

#include "common.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/telemetry/otlp.h"
#include "outbox/telemetry/prometheus.h"
#include "outbox/telemetry/tracing.h"

namespace {

using tutorial::expect;
using tutorial::expect_idle;
using tutorial::order_placed;
using tutorial::Scratch;

void metrics(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [](const outbox::Event&) {});
  // [metrics]
  outbox::prometheus::Registry registry;
  outbox::Outbox box{db, on, {.metrics = registry.stack({.labels = {{"database", "shop"}}})}};
  // [/metrics]
  box.start();
  tutorial::write(box, order_placed("42"));
  expect_idle(box);
  // [serve-metrics]
  const std::string page = registry.text();  // serve it as Registry::kContentType
  // [/serve-metrics]
  expect(page.find("outbox_success_total{database=\"shop\"} 1\n") != std::string::npos,
         "one event is counted");
}

void traces(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  const std::string traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
  std::string heard;
  outbox::Listeners on;
  // [trace-listener]
  on.add("Order", "OrderPlaced", [&](const outbox::Event&) {
    heard = outbox::current_trace()->traceparent();  // hand it on to whom you call
  });
  // [/trace-listener]
  // [tracing]
  const auto exporter =
      std::make_shared<outbox::otlp::Exporter>(outbox::otlp::Options{.service_name = "shop"});
  const auto tracing = std::make_shared<outbox::Tracing>(exporter);
  outbox::Outbox box{db, on, {.interceptors = {tracing}, .hooks = {tracing}}};
  // [/tracing]
  box.start();
  {
    // [trace-scope]
    const outbox::TraceScope scope{outbox::parse_trace(traceparent)};  // from the request's headers
    auto tx = box.begin();
    tx.write(order_placed("42"));  // carries the trace in its own headers
    tx.commit();
    // [/trace-scope]
  }
  expect_idle(box);
  box.close();
  expect(heard.find("0af7651916cd43dd8448eb211c80319c") != std::string::npos,
         "the listener is in the trace of the request");
}

}  // namespace

int main() { return tutorial::run(metrics, traces); }
