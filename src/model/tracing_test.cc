#include "outbox/telemetry/tracing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using testing::RecordingLog;
using testing::Signal;

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kSpan = "b7ad6b7169203331";
const std::string kParent = "00-" + kTrace + "-" + kSpan + "-01";

class RecordingSink final : public SpanSink {
 public:
  void record(Span span) noexcept override {
    const std::lock_guard lock(mutex_);
    spans_.push_back(std::move(span));
  }
  std::vector<Span> spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }
  // Those whose name begins so, in the order in which they ended.
  std::vector<Span> spans(const std::string& operation) const {
    std::vector<Span> found;
    for (Span& span : spans()) {
      if (span.name.starts_with(operation + " ")) found.push_back(std::move(span));
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

std::string text(const Span& span, std::string_view key) {
  for (const Span::Attribute& attribute : span.attributes) {
    if (attribute.key != key) continue;
    if (const auto* number = std::get_if<std::int64_t>(&attribute.value)) {
      return std::to_string(*number);
    }
    return std::get<std::string>(attribute.value);
  }
  return "(absent)";
}

Draft draft(const std::string& type, Headers headers = {}) {
  return {.type = type,
          .aggregate_type = "Order",
          .aggregate_id = "1",
          .payload = json("{}"),
          .headers = std::move(headers)};
}

class TracingTest : public ::testing::Test {
 protected:
  void open(Options options = {}) {
    if (options.interceptors.empty()) options.interceptors = {tracing};
    options.hooks = {tracing};
    options.log = log.log();
    if (!options.retry.policy) {
      options.retry.policy =
          std::make_shared<ExponentialBackoff>(ExponentialBackoffOptions{.base = 1ms, .max = 1ms});
    }
    box = std::make_unique<Outbox>(store, on, options);
    box->start();
  }

  std::string write(Draft draft) {
    auto tx = box->begin();
    std::string id = tx.write(std::move(draft));
    tx.commit();
    return id;
  }

  // Closes it in any case: it would outlive what the test's listeners use.
  void finish() {
    EXPECT_TRUE(box->wait_idle(20s));
    box->close();
  }

  Headers headers(const std::string& id) { return store->admin().find(id)->row.event.headers(); }

  RecordingLog log;
  std::shared_ptr<Store> store = memory::open();
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::shared_ptr<Tracing> tracing = std::make_shared<Tracing>(sink);
  Listeners on;
  std::unique_ptr<Outbox> box;
};

TEST_F(TracingTest, FollowsAnEventFromTheWriterThroughItsListener) {
  std::optional<TraceContext> seen;
  on.add("Order", "Placed", [&](const Event& event) {
    seen = current_trace();
    EXPECT_EQ(trace_of(event), seen);
  });
  open();
  std::string id;
  {
    const TraceScope scope{parse_trace(kParent, "a=1")};
    id = write(draft("Placed"));
  }
  finish();

  const auto created = sink->spans("create");
  const auto processed = sink->spans("process");
  ASSERT_EQ(created.size(), 1u);
  ASSERT_EQ(processed.size(), 1u);
  const Span& create = created.front();
  const Span& process = processed.front();

  EXPECT_EQ(create.name, "create Order/Placed");
  EXPECT_EQ(create.kind, Span::Kind::producer);
  EXPECT_EQ(to_string(create.context.trace_id), kTrace);
  EXPECT_EQ(to_string(create.parent), kSpan);
  EXPECT_NE(to_string(create.context.span_id), kSpan);
  EXPECT_EQ(text(create, "messaging.system"), "outbox");
  EXPECT_EQ(text(create, "messaging.operation.name"), "create");
  EXPECT_EQ(text(create, "messaging.operation.type"), "create");
  EXPECT_EQ(text(create, "messaging.destination.name"), "Order/Placed");
  EXPECT_EQ(text(create, "messaging.message.id"), id);
  EXPECT_LE(create.start, create.end);
  EXPECT_FALSE(create.failed);

  EXPECT_EQ(process.name, "process Order/Placed");
  EXPECT_EQ(process.kind, Span::Kind::consumer);
  EXPECT_EQ(process.context.trace_id, create.context.trace_id);
  EXPECT_EQ(process.parent, create.context.span_id);
  EXPECT_EQ(process.context.state, "a=1");
  EXPECT_EQ(text(process, "messaging.operation.type"), "process");
  EXPECT_EQ(text(process, "messaging.message.id"), id);
  EXPECT_EQ(text(process, "messaging.outbox.message.delivery_attempt"), "1");
  EXPECT_EQ(text(process, "error.type"), "(absent)");
  EXPECT_LE(process.start, process.end);
  EXPECT_EQ(seen, process.context);

  EXPECT_EQ(headers(id).at("traceparent"), create.context.traceparent());
  EXPECT_EQ(headers(id).at("tracestate"), "a=1");
  EXPECT_FALSE(current_trace());
}

TEST_F(TracingTest, AnEventThatAListenerWritesContinuesTheTrace) {
  on.add("Order", "Placed", [&](const Event&) { write(draft("Billed")); });
  on.add("Order", "Billed", [](const Event&) {});
  open();
  write(draft("Placed"));
  finish();

  const auto created = sink->spans("create");
  const auto processed = sink->spans("process");
  ASSERT_EQ(created.size(), 2u);
  ASSERT_EQ(processed.size(), 2u);
  EXPECT_EQ(created[0].parent, SpanId{});  // no trace was current: a new one
  EXPECT_EQ(created[1].parent, processed[0].context.span_id);
  EXPECT_EQ(processed[1].parent, created[1].context.span_id);
  std::set<TraceId> traces;
  for (const Span& span : sink->spans()) traces.insert(span.context.trace_id);
  EXPECT_EQ(traces.size(), 1u);
}

TEST_F(TracingTest, EachAttemptIsASpanAndAFailureSaysWhy) {
  on.add("Order", "Placed", [](const Event&, const Delivery& delivery) {
    if (delivery.attempt == 1) throw std::runtime_error("no \xff luck");
    if (delivery.attempt == 2) throw PermanentError("never");
  });
  open();
  write(draft("Placed"));
  finish();

  const auto processed = sink->spans("process");
  ASSERT_EQ(processed.size(), 2u);
  EXPECT_EQ(processed[0].parent, processed[1].parent);
  EXPECT_TRUE(processed[0].failed);
  EXPECT_EQ(processed[0].error, "no \xef\xbf\xbd luck");
  EXPECT_EQ(text(processed[0], "error.type"), "outbox::RetryableError");
  EXPECT_EQ(text(processed[0], "messaging.outbox.message.delivery_attempt"), "1");
  EXPECT_TRUE(processed[1].failed);
  EXPECT_EQ(text(processed[1], "error.type"), "outbox::PermanentError");
  EXPECT_EQ(text(processed[1], "messaging.outbox.message.delivery_attempt"), "2");
}

TEST_F(TracingTest, TheFirstInterceptorWrapsAllOthers) {
  std::optional<TraceContext> seen_before;
  std::optional<TraceContext> seen_after;
  std::size_t spans_at_after = 99;
  class Other final : public Interceptor {
   public:
    explicit Other(std::function<void(bool)> hook) : hook_(std::move(hook)) {}
    void before(const Event&) override { hook_(true); }
    void after(const Event&, const std::exception_ptr&) override { hook_(false); }

   private:
    std::function<void(bool)> hook_;
  };
  const auto other = std::make_shared<Other>([&](bool before) {
    (before ? seen_before : seen_after) = current_trace();
    if (!before) spans_at_after = sink->spans("process").size();
  });
  const auto refuses = outbox::before([](const Event& event) {
    if (event.type() == "Refused") throw std::logic_error("refused");
  });
  on.add("Order", "Placed", [](const Event&) {});
  on.add("Order", "Refused", [](const Event&) {}, {.max_attempts = 1});
  open({.interceptors = {tracing, other, refuses}});
  write(draft("Placed"));
  ASSERT_TRUE(box->wait_idle(20s));
  ASSERT_EQ(sink->spans("process").size(), 1u);
  const Span process = sink->spans("process").front();
  EXPECT_EQ(seen_before, process.context);
  EXPECT_EQ(seen_after, process.context);
  EXPECT_EQ(spans_at_after, 0u);  // it was still open

  // What a later interceptor throws is in the span as well.
  write(draft("Refused"));
  finish();
  ASSERT_EQ(sink->spans("process").size(), 2u);
  EXPECT_EQ(sink->spans("process").back().error, "refused");
  EXPECT_EQ(text(sink->spans("process").back(), "error.type"), "_OTHER");
}

TEST_F(TracingTest, HeadersOfTheUserStayAsTheyAre) {
  on.add("Order", "Placed", [](const Event&) {});
  open();
  const Headers broken{{"traceparent", "not one"}, {"tracestate", "x"}};
  const Headers foreign{{"Traceparent", kParent}};
  const std::string first = write(draft("Placed", broken));
  const std::string second = write(draft("Placed", foreign));
  finish();

  EXPECT_EQ(headers(first), broken);
  EXPECT_EQ(headers(second), foreign);
  EXPECT_TRUE(sink->spans("create").empty());
  const auto processed = sink->spans("process");
  ASSERT_EQ(processed.size(), 2u);
  EXPECT_EQ(processed[0].parent, SpanId{});  // not valid: as if it were not there
  EXPECT_EQ(to_string(processed[1].parent), kSpan);
  EXPECT_EQ(to_string(processed[1].context.trace_id), kTrace);
}

TEST_F(TracingTest, WhatIsNotSampledIsPassedOnAndNotRecorded) {
  on.add("Order", "Placed", [](const Event&) {});
  open();
  std::string id;
  {
    const TraceScope scope{parse_trace("00-" + kTrace + "-" + kSpan + "-00")};
    id = write(draft("Placed"));
  }
  finish();
  EXPECT_TRUE(sink->spans().empty());
  const auto stored = parse_trace(headers(id).at("traceparent"));
  ASSERT_TRUE(stored);
  EXPECT_EQ(to_string(stored->trace_id), kTrace);
  EXPECT_FALSE(stored->sampled);
}

TEST_F(TracingTest, TheRatioDecidesOnNewTracesOnly) {
  tracing = std::make_shared<Tracing>(sink, TracingOptions{.sample_ratio = 0});
  on.add("Order", "Placed", [](const Event&) {});
  open();
  write(draft("Placed"));
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_TRUE(sink->spans().empty());
  {
    const TraceScope scope{parse_trace(kParent)};
    write(draft("Placed"));
  }
  finish();
  EXPECT_EQ(sink->spans().size(), 2u);

  EXPECT_THROW(Tracing(sink, {.sample_ratio = 1.5}), MisuseError);
  EXPECT_THROW(Tracing(sink, {.sample_ratio = -0.1}), MisuseError);
}

TEST_F(TracingTest, WithoutASinkContextsArePassedOnAsTheyAre) {
  tracing = std::make_shared<Tracing>(nullptr);
  std::optional<TraceContext> seen;
  on.add("Order", "Placed", [&](const Event&) { seen = current_trace(); });
  open();
  std::string id;
  {
    const TraceScope scope{parse_trace(kParent, "a=1")};
    id = write(draft("Placed"));
  }
  ASSERT_TRUE(box->wait_idle(20s));
  EXPECT_EQ(headers(id).at("traceparent"), kParent);
  EXPECT_EQ(seen, parse_trace(kParent, "a=1"));

  id = write(draft("Placed"));
  finish();
  EXPECT_TRUE(headers(id).empty());
  EXPECT_FALSE(seen);
}

TEST_F(TracingTest, AllEventsOfOneWriteAreCreatedEach) {
  on.add("Order", "Placed", [](const Event&) {});
  open();
  std::vector<Draft> drafts(300, draft("Placed"));
  auto tx = box->begin();
  const auto ids = tx.write_all(drafts);
  tx.commit();
  finish();
  std::map<std::string, SpanId> created;
  for (const Span& span : sink->spans("create")) {
    created[text(span, "messaging.message.id")] = span.context.span_id;
  }
  EXPECT_EQ(created.size(), ids.size());
  const auto processed = sink->spans("process");
  EXPECT_EQ(processed.size(), ids.size());
  for (const Span& span : processed) {
    EXPECT_EQ(span.parent, created[text(span, "messaging.message.id")]);
  }
}

TEST_F(TracingTest, AWriteThatFailedLeavesNoSpan) {
  on.add("Order", "Placed", [](const Event&) {});
  open();
  {
    auto tx = box->begin();
    EXPECT_THROW(tx.write({.type = "Placed"}), MisuseError);  // no payload
  }
  EXPECT_TRUE(sink->spans().empty());
  write(draft("Placed"));
  finish();
  EXPECT_EQ(sink->spans("create").size(), 1u);
}

// A batch works for many traces at once, and ends its events in the order in
// which it began them.
TEST_F(TracingTest, ABatchListenerKnowsTheTraceOfEachEvent) {
  class Batch final : public BatchListener {
   public:
    std::vector<Outcome> on_events(std::span<const Item> items) override {
      std::vector<Outcome> outcomes;
      for (const Item& item : items) {
        const std::lock_guard lock(mutex);
        places[item.event.id()] = trace_of(item.event);
        current[item.event.id()] = current_trace();
        sizes.push_back(items.size());
        outcomes.push_back(item.event.payload() == "13" ? Outcome::permanent("13")
                                                        : Outcome::done());
      }
      return outcomes;
    }
    std::mutex mutex;
    std::map<std::string, std::optional<TraceContext>> places;
    std::map<std::string, std::optional<TraceContext>> current;
    std::vector<std::size_t> sizes;
  };
  const auto batch = std::make_shared<Batch>();
  on.add_batch("Order", "Placed", batch, {.ordering = Ordering::none});
  open({.workers = 2});
  std::vector<Draft> drafts;
  for (int i = 0; i < 40; ++i) {
    drafts.push_back(draft("Placed"));
    drafts.back().aggregate_id = std::to_string(i);
    drafts.back().payload = json(std::to_string(i));
  }
  auto tx = box->begin();
  tx.write_all(drafts);
  tx.commit();
  finish();

  const auto processed = sink->spans("process");
  ASSERT_EQ(processed.size(), 40u);
  int failed = 0;
  for (const Span& span : processed) {
    const std::string id = text(span, "messaging.message.id");
    EXPECT_EQ(batch->places[id], span.context);
    if (span.failed) ++failed;
  }
  EXPECT_EQ(failed, 1);
  EXPECT_GT(*std::max_element(batch->sizes.begin(), batch->sizes.end()), 1u);
  std::size_t alone = 0;
  for (const auto& [id, context] : batch->current) {
    if (context) {
      ++alone;
      EXPECT_EQ(context, batch->places[id]);
    }
  }
  EXPECT_EQ(alone, static_cast<std::size_t>(
                       std::count(batch->sizes.begin(), batch->sizes.end(), std::size_t{1})));
}

TEST_F(TracingTest, SpansDoNotEndBeforeTheyBeganWhenTheClockStepsBack) {
  testing::ManualClock clock;
  tracing = std::make_shared<Tracing>(sink, TracingOptions{.clock = &clock});
  const Event event = make_event(draft("Placed"), clock);
  tracing->before(event);
  clock.step(-1h);
  clock.advance(5ms);
  tracing->after(event, nullptr);
  ASSERT_EQ(sink->spans().size(), 1u);
  EXPECT_EQ(sink->spans().front().end - sink->spans().front().start, 5ms);
  tracing->after(event, nullptr);  // nothing is under way
  EXPECT_EQ(sink->spans().size(), 1u);
}

}  // namespace
}  // namespace outbox
