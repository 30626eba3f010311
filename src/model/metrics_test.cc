#include "outbox/telemetry/metrics.h"

#include <gtest/gtest.h>

#include <set>

namespace outbox {
namespace {

// Walks an enum until its names end; exporters rely on each having its own.
template <class Enum>
std::set<std::string_view> names() {
  std::set<std::string_view> names;
  for (int i = 0; to_string(static_cast<Enum>(i)) != "unknown"; ++i) {
    EXPECT_TRUE(names.insert(to_string(static_cast<Enum>(i))).second);
  }
  return names;
}

TEST(Metrics, HaveOneNameEach) {
  EXPECT_EQ(names<Counter>(),
            (std::set<std::string_view>{"hot_enqueued", "hot_dropped", "hot_skipped_delayed",
                                        "cold_enqueued", "success", "failure", "deferred", "dead",
                                        "stale_updates", "hung_calls", "unroutable"}));
  EXPECT_EQ(names<Gauge>(),
            (std::set<std::string_view>{"hot_depth", "cold_depth", "in_flight", "pending",
                                        "dead_events", "oldest_lag", "pending_bytes"}));
  EXPECT_EQ(names<Timing>(), (std::set<std::string_view>{"listener", "commit_to_done"}));
}

}  // namespace
}  // namespace outbox
