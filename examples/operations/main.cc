// What an operator does: looks at events that died, sends them again once the
// cause is fixed, and keeps the table small.
//
//   example_operations [database]      default: a temporary file
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <variant>

#include "outbox/admin/dead_events.h"
#include "outbox/admin/purge.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;

void place_orders(outbox::Outbox& box, int count) {
  auto tx = box.begin();
  for (int i = 1; i <= count; ++i) {
    tx.write({.type = "OrderPlaced",
              .aggregate_type = "Order",
              .aggregate_id = std::to_string(i),
              .payload = outbox::json("{\"order\":" + std::to_string(i) + "}")});
  }
  tx.commit();
}

void wait_until_idle(outbox::Outbox& box) {
  if (!box.wait_idle(20s)) throw std::runtime_error("the events were not delivered in time");
}

void run(const std::string& path) {
  const auto store = outbox::sqlite::open(path);
  std::atomic<bool> broken = true;
  outbox::Listeners on;
  on.add("Order", "OrderPlaced", [&](const outbox::Event& event) {
    // Permanent: no attempt of many would help, so the event is DEAD at once.
    if (broken && event.aggregate_id() != "1") {
      throw outbox::PermanentError(
          event.aggregate_id() == "2" ? "customer unknown" : "template 'bill' has a % too many");
    }
    std::cout << "billed " << event.payload() << std::endl;
  });
  outbox::Outbox box{store, on};
  box.start();
  place_orders(box, 5);
  wait_until_idle(box);

  // What died, and of what?
  outbox::DeadEvents dead{store};
  std::cout << dead.count() << " are dead:\n";
  for (const outbox::DeadGroup& group : dead.groups()) {
    std::cout << "  " << group.count << " x " << group.type << ": " << group.error << '\n';
  }
  for (const outbox::EventRecord& record : dead.query({.error_contains = "% too"}, 10)) {
    std::cout << "  order " << record.row.event.aggregate_id() << ": " << record.row.attempts
              << " attempt(s)\n";
  }

  // The template is fixed: those that died of it go out again, at most a
  // hundred a second. The unknown customer stays unknown.
  broken = false;
  const auto replayed = dead.replay_all({.error_contains = "template"}, {.rate = 100});
  std::cout << "replayed " + std::to_string(replayed) + "\n";
  wait_until_idle(box);
  std::cout << "discarded " << dead.discard_all({.error_contains = "customer unknown"}) << '\n';

  // The receiver lost what it got for order 1: once more, please.
  const auto again = dead.replay_done({.aggregate_id = "1"});
  std::cout << "replayed " + std::to_string(again) + " that was delivered\n";
  wait_until_idle(box);

  // Delivered events stay for a week by default; here they go at once, to the
  // archive. A service would call start() and leave it to run every hour.
  outbox::Purger purger{store, {.done_retention = 0s, .archive = true}};
  std::cout << "a purge would remove " << purger.preview().done << '\n';
  const outbox::Purged purged = purger.run_once();
  const auto archived =
      store->connect()->query("SELECT count(*) FROM outbox_event_archive", {}).at(0);
  std::cout << "purged " << purged.done << ", archived " << archived.get<std::int64_t>(0)
            << ", left " << store->admin().count({}) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
