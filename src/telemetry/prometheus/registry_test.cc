#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "outbox/error.h"
#include "outbox/telemetry/prometheus.h"
#include "telemetry/prometheus/names.h"

namespace outbox::prometheus {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    found.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

std::size_t count(const std::string& text, const std::string& line) {
  std::size_t n = 0;
  for (const std::string& each : lines(text)) n += each == line;
  return n;
}

TEST(PrometheusTest, AllNamesAreThereBeforeAnythingHappens) {
  Registry registry;
  const auto metrics = registry.stack();
  const std::string text = registry.text();
  for (const std::string name : {"hot_enqueued_total",
                                 "hot_dropped_total",
                                 "hot_skipped_delayed_total",
                                 "cold_enqueued_total",
                                 "success_total",
                                 "failure_total",
                                 "deferred_total",
                                 "dead_total",
                                 "stale_updates_total",
                                 "hung_calls_total",
                                 "unroutable_total",
                                 "hot_depth",
                                 "cold_depth",
                                 "in_flight",
                                 "pending",
                                 "dead_events",
                                 "oldest_lag_seconds",
                                 "pending_bytes",
                                 "listener_duration_seconds_sum",
                                 "listener_duration_seconds_count",
                                 "commit_to_done_seconds_sum",
                                 "commit_to_done_seconds_count"}) {
    EXPECT_EQ(count(text, "outbox_" + name + " 0"), 1u) << name << " in\n" << text;
  }
}

TEST(PrometheusTest, CountsSetsAndObserves) {
  Registry registry;
  const auto metrics = registry.stack();
  metrics->add(Counter::success);
  metrics->add(Counter::success, 41);
  metrics->set(Gauge::pending, 17);
  metrics->set(Gauge::pending, 7);
  metrics->observe(Timing::listener, 20us);
  metrics->observe(Timing::listener, 3s);
  metrics->observe(Timing::commit_to_done, -5s);  // the clock was set back
  const std::string text = registry.text();
  EXPECT_EQ(count(text, "# TYPE outbox_success_total counter"), 1u);
  EXPECT_EQ(count(text, "# HELP outbox_success_total Events that became DONE."), 1u);
  EXPECT_EQ(count(text, "outbox_success_total 42"), 1u) << text;
  EXPECT_EQ(count(text, "outbox_pending 7"), 1u);
  EXPECT_EQ(count(text, "# TYPE outbox_listener_duration_seconds histogram"), 1u);
  EXPECT_EQ(count(text, "outbox_listener_duration_seconds_bucket{le=\"1e-05\"} 0"), 1u) << text;
  EXPECT_EQ(count(text, "outbox_listener_duration_seconds_bucket{le=\"2.5e-05\"} 1"), 1u);
  EXPECT_EQ(count(text, "outbox_listener_duration_seconds_bucket{le=\"2.5\"} 1"), 1u);
  EXPECT_EQ(count(text, "outbox_listener_duration_seconds_bucket{le=\"5\"} 2"), 1u);
  EXPECT_EQ(count(text, "outbox_listener_duration_seconds_bucket{le=\"+Inf\"} 2"), 1u);
  EXPECT_EQ(count(text, "outbox_commit_to_done_seconds_sum 0"), 1u);
  EXPECT_EQ(count(text, "outbox_commit_to_done_seconds_bucket{le=\"1e-05\"} 1"), 1u);
}

TEST(PrometheusTest, TheOldestLagIsAGaugeInSeconds) {
  Registry registry;
  const auto metrics = registry.stack();
  metrics->set(Gauge::oldest_lag, 1.5);
  EXPECT_EQ(count(registry.text(), "# TYPE outbox_oldest_lag_seconds gauge"), 1u);
  EXPECT_EQ(count(registry.text(), "outbox_oldest_lag_seconds 1.5"), 1u) << registry.text();
}

TEST(PrometheusTest, StacksShareTheRegistryByPrefixAndLabels) {
  Registry registry;
  const auto shop = registry.stack({.labels = {{"database", "shop"}}});
  const auto odd = registry.stack({.labels = {{"database", "a\"b\\c\nd"}}});
  const auto billing = registry.stack({.prefix = "billing_outbox_"});
  shop->add(Counter::dead, 1);
  odd->add(Counter::dead, 2);
  billing->add(Counter::dead, 3);
  const std::string text = registry.text();
  EXPECT_EQ(count(text, "outbox_dead_total{database=\"shop\"} 1"), 1u) << text;
  EXPECT_EQ(count(text, R"(outbox_dead_total{database="a\"b\\c\nd"} 2)"), 1u) << text;
  EXPECT_EQ(count(text, "billing_outbox_dead_total 3"), 1u);
  EXPECT_EQ(count(text, "# TYPE outbox_dead_total counter"), 1u);  // one family, two series
}

TEST(PrometheusTest, ASubscriptionIsALabel) {
  Registry registry;
  const auto stack = registry.stack({.labels = {{"database", "shop"}}});
  const auto billing = stack->of_subscription("billing");
  billing->set(Gauge::pending, 7);
  EXPECT_NE(registry.text().find(R"(outbox_pending{database="shop",subscription="billing"} 7)"),
            std::string::npos)
      << registry.text();
  EXPECT_THROW(stack->of_subscription("billing"), MisuseError);
}

TEST(PrometheusTest, ANewStackCountsOnWhereAGoneOneWas) {
  Registry registry;
  auto metrics = registry.stack();
  EXPECT_THROW(registry.stack(), MisuseError);
  metrics->add(Counter::success, 5);
  metrics.reset();
  metrics = registry.stack();
  metrics->add(Counter::success, 2);
  EXPECT_EQ(count(registry.text(), "outbox_success_total 7"), 1u);
}

TEST(PrometheusTest, AStackMayOutliveTheRegistry) {
  auto registry = std::make_unique<Registry>();
  const auto metrics = registry->stack();
  registry.reset();
  metrics->add(Counter::success);
  metrics->observe(Timing::listener, 1ms);
}

TEST(PrometheusTest, RefusesNamesThatPrometheusWould) {
  Registry registry;
  for (const std::string prefix : {"", "1_", "a-", "a b", "ä_", "a:"}) {
    EXPECT_THROW(registry.stack({.prefix = prefix}), MisuseError) << prefix;
  }
  for (const std::string label : {"", "1", "a-b", "le", "__name__", "a:b"}) {
    EXPECT_THROW(registry.stack({.labels = {{label, "x"}}}), MisuseError) << label;
  }
  EXPECT_THROW(registry.stack({.labels = {{"a", "\xff"}}}), MisuseError);
  EXPECT_EQ(registry.text(), "");
}

TEST(PrometheusTest, ManyThreadsLoseNothing) {
  Registry registry;
  const auto metrics = registry.stack();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5'000; ++i) {
        metrics->add(Counter::cold_enqueued);
        metrics->observe(Timing::listener, 1ms);
        if (i % 1'000 == 0) (void)registry.text();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count(registry.text(), "outbox_cold_enqueued_total 20000"), 1u);
  EXPECT_EQ(count(registry.text(), "outbox_listener_duration_seconds_count 20000"), 1u);
}

TEST(PrometheusTest, BucketsGoFromTenMicrosecondsToAMinute) {
  const std::vector<double> buckets = duration_buckets();
  EXPECT_EQ(buckets.front(), 0.00001);
  EXPECT_EQ(buckets.back(), 60);
  EXPECT_TRUE(std::is_sorted(buckets.begin(), buckets.end()));
}

}  // namespace
}  // namespace outbox::prometheus
