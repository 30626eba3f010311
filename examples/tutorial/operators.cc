// Dead events and purge.
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "common.h"
#include "outbox/admin/dead_events.h"
#include "outbox/admin/purge.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"

namespace {

using namespace std::chrono_literals;
using tutorial::expect;
using tutorial::expect_idle;
using tutorial::order_placed;
using tutorial::Scratch;

void operators(const Scratch& scratch) {
  const auto db = outbox::sqlite::open(scratch.file("shop.db"));
  std::atomic<bool> broken = true;
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [&](const outbox::Event&) {
    if (broken) throw outbox::PermanentError("the template has a % too many");
  });
  outbox::Outbox box{db, on};
  box.start();
  for (int i = 0; i < 5; ++i) tutorial::write(box, order_placed(std::to_string(i)));
  expect_idle(box);

  // [dead-look]
  outbox::DeadEvents dead{db};
  for (const outbox::DeadGroup& group : dead.groups()) {
    std::cout << group.count << " x " << group.type << ": " << group.error << '\n';
  }
  const auto page = dead.query({.type = "OrderPlaced", .error_contains = "template"}, 50);
  // [/dead-look]
  expect(dead.count() == 5 && page.size() == 5, "all are dead");
  broken = false;
  const std::string& id = page.front().row.event.id();
  // [dead-replay]
  dead.replay(id);  // this one, once more
  const auto replayed = dead.replay_all({.error_contains = "template"}, {.rate = 50});
  // [/dead-replay]
  expect(replayed == 4, "the others are replayed");
  expect_idle(box);
  expect(dead.count() == 0, "all are delivered");

  // [replay-done]
  const auto again = dead.replay_done({.aggregate_id = "3"});
  // [/replay-done]
  expect(again == 1, "one was delivered to that aggregate");
  expect_idle(box);

  // [scheduled-replay]
  outbox::ScheduledReplay schedule{
      db, {.interval = 1h, .filter = {.error_contains = "timed out"}, .min_age = 10min}};
  schedule.start();
  // [/scheduled-replay]
  schedule.close();

  {
    // [purge]
    outbox::Purger purger{db, {.done_retention = 24h * 7, .dead_retention = 24h * 30}};
    purger.start();  // now, and then every hour
    // [/purge]
    purger.close();
  }
  {
    // [purge-once]
    outbox::Purger purger{db, {.done_retention = 0s, .archive = true}};
    const outbox::Purged purged = purger.run_once();
    // [/purge-once]
    expect(purged.done == 5, "delivered events are moved to the archive");
  }
  {
    // [purge-by-age]
    outbox::Purger purger{db, {.age = 24h * 14}};
    // [/purge-by-age]
    expect(purger.preview().total() == 0, "nothing is that old");
  }
}

}  // namespace

int main() { return tutorial::run(operators); }
