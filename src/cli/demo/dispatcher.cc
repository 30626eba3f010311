#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/thread.h"
#include "cli/demo/report.h"
#include "cli/demo/role.h"
#include "cli/demo/shop.h"
#include "cli/demo/stop_signal.h"
#include "cli/demo/wire.h"
#include "cli/demo/words.h"
#include "outbox/error.h"
#include "outbox/outbox.h"

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;

Parcel parcel_of(const Event& event) {
  const auto number = to_number<int>(event.header("number").value_or(""));
  if (!number) throw PermanentError("no number in the headers of event " + event.id());
  return {.id = event.id(), .customer = event.aggregate_id(), .number = *number};
}

// Hands events to the receiver, and says when it goes away and comes back.
class ToReceiver final : public Listener {
 public:
  explicit ToReceiver(const Workplace& workplace) : courier_(workplace.socket(), 1s) {}

  Outcome on_event(const Event& event, const Delivery&) override {
    try {
      courier_.deliver(parcel_of(event));
    } catch (const UnavailableError& error) {
      if (!away_.exchange(true)) tell({.text = std::string(error.what()) + "; events wait"});
      throw;
    }
    if (away_.exchange(false)) tell({.text = "the receiver is back"});
    return Outcome::done();
  }

 private:
  Courier courier_;
  std::atomic<bool> away_{false};
};

Listeners listeners(const Workplace& workplace) {
  Listeners on;
  on.add(kAggregate, kEvent,
         std::static_pointer_cast<Listener>(std::make_shared<ToReceiver>(workplace)));
  return on;
}

}  // namespace

void run(const DispatcherRole& role) {
  name_this_thread("outbox-dispatch");  // or it would be called "exe"
  StopSignal stop;
  Outbox box{open_shop(role.workplace.database.string(), telling_log()),
             listeners(role.workplace),
             {// Whoever heals the receiver wants to see the events flow at once.
              .breaker = {.max_pause = 500ms},
              // The kills come from outside: no event is to blame for them.
              .max_solo_crashes = 1000,
              .name = "demo",
              .log = telling_log()}};
  box.start();
  tell({.kind = Report::Kind::ready});
  stop.wait();
  box.close();
}

}  // namespace outbox::demo
