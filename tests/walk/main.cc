// One ordered event on PostgreSQL, from tx.write to the acknowledged DONE, under callgrind:
// scripts/walk tells from its output which files an event goes through.
#include <valgrind/callgrind.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>

#include "outbox/outbox.h"
#include "outbox/postgres.h"
#include "outbox/telemetry/metrics.h"
#include "support/services.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

// Counts what was acknowledged, and lets others wait for it; and for the lanes to hear of it, which
// is microseconds later.
class Acknowledged final : public Metrics {
 public:
  void add(Counter counter, std::uint64_t n) noexcept override {
    if (counter != Counter::success) return;
    const std::lock_guard lock(mutex_);
    count_ += n;
    idle_ = false;
  }
  void set(Gauge gauge, double value) noexcept override {
    if (gauge != Gauge::in_flight) return;
    const std::lock_guard lock(mutex_);
    idle_ = value == 0;
    changed_.notify_all();
  }
  void observe(Timing, std::chrono::nanoseconds) noexcept override {}

  bool wait_for(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return count_ >= count && idle_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
  bool idle_ = false;  // nothing is in flight
};

void deliver_one(Outbox& box, Acknowledged& acknowledged, std::uint64_t number, bool watched) {
  auto tx = box.begin();
  if (watched) CALLGRIND_ZERO_STATS;
  tx.write({.type = "OrderPlaced",
            .aggregate_type = "Order",
            .aggregate_id = "42",
            .payload = json(R"({"cents":1999})")});
  tx.commit();
  if (!acknowledged.wait_for(number))
    throw RetryableError("the event was not delivered in a minute");
  if (watched) CALLGRIND_DUMP_STATS;
}

int run() {
  const auto acknowledged = std::make_shared<Acknowledged>();
  const auto store = postgres::open(test::postgres_url(), {.table = "walk_event"});
  Listeners on;
  on.add("Order", "OrderPlaced", [](const Event&) {});
  // Nothing but the event happens meanwhile: no renewal, no poll by the clock.
  Outbox box{
      store,
      on,
      {.workers = 1, .poll_interval = 1h, .lease = {.duration = 1h}, .metrics = acknowledged}};
  box.start();
  deliver_one(box, *acknowledged, 1, false);  // what is done once: statements, threads
  deliver_one(box, *acknowledged, 2, true);
  box.close();
  return 0;
}

}  // namespace
}  // namespace outbox

int main() {
  try {
    return outbox::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "walk: %s\n", error.what());
    return 1;
  }
}
