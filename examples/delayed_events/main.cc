// Events that are delivered later: after a span, or at a time.
//
//   example_delayed_events [database]      default: a temporary file
//
// The delay is in the table, not in the process: it survives a restart.
#include <chrono>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::round;

// Remembers what came, and whether any of it came too early.
class Diary {
 public:
  void note(const outbox::Event& event) {
    const outbox::Time now = outbox::host_clock().now();
    const auto asked = round<milliseconds>(event.available_at() - event.occurred_at());
    const auto taken = round<milliseconds>(now - event.occurred_at());
    const std::lock_guard lock(mutex_);
    std::cout << std::left << std::setw(22) << event.type() << "asked for " << std::right
              << std::setw(4) << asked.count() << " ms, delivered after " << std::setw(4)
              << taken.count() << " ms" << std::endl;
    order_.push_back(event.type());
    if (now < event.available_at()) too_early_ = true;
  }

  void judge(const std::vector<std::string>& expected) {
    const std::lock_guard lock(mutex_);
    if (too_early_) throw std::logic_error("an event was delivered before its time");
    if (order_ != expected) throw std::logic_error("the events came in another order");
    std::cout << "all in time, in the order in which they became due" << std::endl;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> order_;
  bool too_early_ = false;
};

void run(const std::string& path) {
  Diary diary;
  outbox::Listeners on;
  for (const char* type : {"OrderPlaced", "PaymentReminder", "OrderExpired", "OrderPaid"}) {
    on.add("Order", type, [&](const outbox::Event& event) { diary.note(event); });
  }
  // One worker, because only then the lines stand in the order of the calls.
  outbox::Outbox box{outbox::sqlite::open(path), on, {.workers = 1}};
  box.start();

  const auto draft = [](const char* type) {
    return outbox::Draft{
        .type = type, .aggregate_type = "Order", .aggregate_id = 7, .payload = outbox::json("{}")};
  };
  auto tx = box.begin();
  tx.write(draft("OrderPlaced"));

  // A time of day: what a calendar says.
  outbox::Draft expired = draft("OrderExpired");
  expired.deliver_at = std::chrono::system_clock::now() + 2s;
  tx.write(expired);

  // A span from now on: what a rule says. Here it is due before the one above,
  // although its row comes later.
  outbox::Draft reminder = draft("PaymentReminder");
  reminder.deliver_after = 1s;
  tx.write(reminder);

  // Same order, no delay: events that are not due yet hold nobody back.
  tx.write(draft("OrderPaid"));
  tx.commit();

  // Waits for the delayed ones too.
  if (!box.wait_idle(20s)) throw std::runtime_error("an event was not delivered in time");
  diary.judge({"OrderPlaced", "OrderPaid", "PaymentReminder", "OrderExpired"});
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
