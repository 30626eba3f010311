// What the engine counts, all the way to the text that Prometheus reads.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "engine/test_fixture.h"
#include "outbox/telemetry/prometheus.h"
#include "promtool.h"

namespace outbox::telemetry_tests {
namespace {

using namespace std::chrono_literals;
using namespace outbox::testing;

// Notes which metrics the engine feeds, and hands everything on.
class Noting final : public Metrics {
 public:
  explicit Noting(std::shared_ptr<Metrics> next) : next_(std::move(next)) {}

  void add(Counter counter, std::uint64_t n) noexcept override {
    next_->add(counter, n);
    note(to_string(counter));
  }
  void set(Gauge gauge, double value) noexcept override {
    next_->set(gauge, value);
    note(to_string(gauge));
  }
  void observe(Timing timing, std::chrono::nanoseconds value) noexcept override {
    next_->observe(timing, value);
    note(to_string(timing));
  }

  bool fed(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    return fed_.contains(std::string(name));
  }

 private:
  void note(std::string_view name) {
    const std::lock_guard lock(mutex_);
    fed_.emplace(name);
  }

  const std::shared_ptr<Metrics> next_;
  mutable std::mutex mutex_;
  std::set<std::string> fed_;
};

class MetricsTest : public EngineTest {
 protected:
  std::unique_ptr<Outbox> start(Options options, std::shared_ptr<Listener> to) {
    options.log = log.log();
    options.metrics = noting;
    Listeners on;
    on.add("Order", "Happened", std::move(to));
    auto box = std::make_unique<Outbox>(store, on, options);
    box->start();
    return box;
  }

  template <class Enum>
  bool fed(Enum value) {
    return noting->fed(to_string(value));
  }

  prometheus::Registry registry;
  std::shared_ptr<Noting> noting = std::make_shared<Noting>(registry.stack());
};

TEST_F(MetricsTest, AFullRunFeedsEveryMetricAndPromtoolAcceptsThem) {
  // With order: cold events of all fates, one of them hanging.
  {
    Barrier hang;
    std::atomic<bool> failed_once{false};
    auto box = start({.retry = {.policy = retry_every(1ms)}, .timeouts = {.hung = 30s}},
                     listener([&](const Event& event) {
                       if (event.payload() == "\"hang\"") hang.pass();
                       if (event.payload() == "\"fail\"" && !failed_once.exchange(true)) {
                         throw std::runtime_error("not this time");
                       }
                       if (event.payload() == "\"dead\"") throw PermanentError("never");
                       return Outcome::done();
                     }));
    write(*box, order_event("1", "\"hang\""));
    ASSERT_TRUE(hang.reached());
    clock.advance(31s);
    box->wake();
    EXPECT_TRUE(eventually([&] { return fed(Counter::hung_calls); }));
    EXPECT_NE(registry.text().find("\noutbox_hung_calls_total 1\n"), std::string::npos);
    hang.open();
    Draft late = order_event("2", "\"late\"");
    late.deliver_after = 10s;
    write(*box, late);
    write(*box, order_event("3", "\"fail\""));
    write(*box, order_event("4", "\"dead\""));
    EXPECT_TRUE(eventually([&] {
      clock.advance(1s);
      box->wake();
      return fed(Counter::failure) && fed(Counter::dead);
    }));
    EXPECT_TRUE(eventually([&] {
      clock.advance(1s);
      box->wake();
      return box->wait_idle(1ms);
    }));
  }
  // Without order: straight from the commit, and a queue that is full.
  {
    Barrier busy;
    std::atomic<bool> deferred_once{false};
    auto box =
        start({.workers = 1, .ordering = Ordering::none, .queue = {.hot_capacity = 2}},
              listener([&](const Event&) {
                busy.pass();
                return deferred_once.exchange(true) ? Outcome::done() : Outcome::retry_after(1ms);
              }));
    ASSERT_TRUE(eventually([&] { return box->owner(); }));
    for (int n = 0; n < 10; ++n) write(*box, order_event("1", std::to_string(n)));
    busy.open();
    EXPECT_TRUE(eventually([&] {
      clock.advance(1s);
      box->wake();
      return box->wait_idle(1ms);
    }));
  }
  // An update that is sent after the lease was lost.
  {
    Barrier inside;
    Barrier asleep;
    std::atomic<bool> sleeps{false};
    faults->before([&](std::string_view call) {
      if (call == "renew" && sleeps) asleep.pass();
    });
    auto zombie =
        start({.lease = {.duration = 15s}}, listener([&](const Event&) { inside.pass(); }));
    write(*zombie, order_event("1", "1"));
    ASSERT_TRUE(inside.reached());
    sleeps = true;
    store = bare_store;
    clock.advance(16s);
    auto next = start({.lease = {.duration = 15s}}, listener([](const Event&) {}));
    EXPECT_TRUE(next->wait_idle(20s));
    inside.open();
    EXPECT_TRUE(eventually([&] { return fed(Counter::stale_updates); }));
    asleep.open();
  }

  for (const Counter counter :
       {Counter::hot_enqueued, Counter::hot_dropped, Counter::hot_skipped_delayed,
        Counter::cold_enqueued, Counter::success, Counter::failure, Counter::deferred,
        Counter::dead, Counter::stale_updates, Counter::hung_calls}) {
    EXPECT_TRUE(fed(counter)) << "the engine never counts " << to_string(counter);
  }
  for (const Gauge gauge : {Gauge::hot_depth, Gauge::cold_depth, Gauge::in_flight, Gauge::pending,
                            Gauge::dead_events, Gauge::oldest_lag, Gauge::pending_bytes}) {
    EXPECT_TRUE(fed(gauge)) << "the engine never sets " << to_string(gauge);
  }
  for (const Timing timing : {Timing::listener, Timing::commit_to_done}) {
    EXPECT_TRUE(fed(timing)) << "the engine never observes " << to_string(timing);
  }

  const std::string text = registry.text();
  EXPECT_TRUE(promtool_accepts(text)) << text;
  EXPECT_NE(text.find("\noutbox_dead_total 1\n"), text.npos) << text;
  EXPECT_NE(text.find("\noutbox_dead_events 1\n"), text.npos) << text;
  EXPECT_EQ(text.find("_duration_seconds_count 0\n"), text.npos) << text;
}

TEST_F(MetricsTest, PromtoolAcceptsSeveralStacksAndOddLabels) {
  const auto other = registry.stack({.labels = {{"database", "a \"b\" \\ \n ü"}}});
  const auto third = registry.stack({.prefix = "billing_outbox_"});
  other->add(Counter::success, 3);
  third->observe(Timing::commit_to_done, 12ms);
  EXPECT_TRUE(promtool_accepts(registry.text())) << registry.text();
}

std::string documentation() {
  std::ifstream file(OUTBOX_DOCS "/telemetry.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(MetricsTest, TheDocumentationNamesEachOfThem) {
  const std::string docs = documentation();
  std::istringstream text(registry.text());
  std::size_t names = 0;
  for (std::string hash, type, name, rest; text >> hash; std::getline(text, rest)) {
    if (hash != "#" || !(text >> type >> name) || type != "TYPE") continue;
    ++names;
    EXPECT_NE(docs.find('`' + name + '`'), docs.npos) << name << " is not in docs/telemetry.md";
  }
  EXPECT_EQ(names, 20u);
}

TEST(DocumentedAlertsTest, AreRulesThatPrometheusTakes) {
  const std::string docs = documentation();
  const std::string fence = "```yaml\n";
  const std::size_t begin = docs.find(fence);
  ASSERT_NE(begin, docs.npos);
  const std::size_t end = docs.find("```", begin + fence.size());
  const std::string rules = docs.substr(begin + fence.size(), end - begin - fence.size());
  EXPECT_TRUE(promtool_accepts(rules, "rules")) << rules;
  EXPECT_FALSE(promtool_accepts(rules + "      - alert: 1\n        expr: (\n", "rules"));
}

// The judge is judged too.
TEST(PromtoolTest, FindsWhatIsWrong) {
  EXPECT_FALSE(promtool_accepts("# HELP outbox_x Text.\n# TYPE outbox_x counter\noutbox_x 1\n"));
  EXPECT_FALSE(promtool_accepts("outbox_x{ 1\n"));
  EXPECT_TRUE(promtool_accepts(
      "# HELP outbox_x_total Text.\n# TYPE outbox_x_total counter\noutbox_x_total 1\n"));
}

}  // namespace
}  // namespace outbox::telemetry_tests
