// A trace that goes on where the event goes: from a request to its listener.
//
//   example_tracing [endpoint]    e.g. http://localhost:4318/v1/traces
//
// With the address of an OpenTelemetry collector the spans are sent there as
// well.
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/telemetry/otlp.h"
#include "outbox/telemetry/tracing.h"

namespace {

using namespace std::chrono_literals;

// What came with a request, as any program that takes part in the trace sends it.
constexpr const char* kTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Prints spans, and hands them on to a collector if there is one.
class PrintingSink final : public outbox::SpanSink {
 public:
  explicit PrintingSink(std::shared_ptr<outbox::SpanSink> next) : next_(std::move(next)) {}

  void record(outbox::Span span) noexcept override {
    std::cout << span.name + ": trace " + outbox::to_string(span.context.trace_id) + ", span " +
                     outbox::to_string(span.context.span_id) + ", parent " +
                     outbox::to_string(span.parent) + '\n';
    if (next_) next_->record(std::move(span));
  }

 private:
  const std::shared_ptr<outbox::SpanSink> next_;
};

void run(const std::shared_ptr<outbox::SpanSink>& collector) {
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [](const outbox::Event& event) {
    std::cout << "billing order " + event.aggregate_id() + " in trace " +
                     outbox::to_string(outbox::current_trace()->trace_id) + '\n';
  });
  auto tracing = std::make_shared<outbox::Tracing>(std::make_shared<PrintingSink>(collector));
  outbox::Outbox box{outbox::memory::open(), on, {.interceptors = {tracing}, .hooks = {tracing}}};
  box.start();

  const outbox::TraceScope request{outbox::parse_trace(kTraceparent)};
  auto tx = box.begin();
  tx.write({.type = "OrderPlaced",
            .aggregate_type = "Order",
            .aggregate_id = "42",
            .payload = outbox::json(R"({"cents":1999})")});
  tx.commit();
  if (!box.wait_idle(20s)) throw std::runtime_error("the event was not delivered in time");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::shared_ptr<outbox::otlp::Exporter> exporter;
    if (argc > 1) {
      exporter = std::make_shared<outbox::otlp::Exporter>(
          outbox::otlp::Options{.endpoint = argv[1], .service_name = "example"});
    }
    run(exporter);
    if (exporter && !exporter->close(5s)) throw std::runtime_error("the collector took no spans");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "tracing: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
