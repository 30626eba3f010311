#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/thread.h"
#include "cli/demo/demo.h"
#include "cli/demo/report.h"
#include "cli/demo/shop.h"
#include "harness/ledger.h"
#include "harness/process.h"
#include "harness/receiver.h"
#include "outbox/error.h"
#include "outbox/outbox.h"

namespace outbox::demo {

using harness::Message;
using harness::Signals;

namespace {

using Kind = Report::Kind;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

// --- The writer ---

constexpr int kCustomers = 20;
constexpr int kOneInSoManyRolledBack = 10;

// How long to leave a database alone that does not let us write.
constexpr std::chrono::milliseconds kPause{200};

class Shop {
 public:
  explicit Shop(const WriterOptions& options)
      : writer_(open_shop(options.directory.database.string(), telling_log())),
        rolled_back_(options.directory.rollbacks()),
        random_(options.seed) {}

  void sell() {
    const std::string customer = "customer-" + std::to_string(pick(1, kCustomers));
    const int cents = pick(100, 20'000);
    auto tx = writer_.begin();
    const std::string id = place_order(tx, customer, cents);
    if (pick(1, kOneInSoManyRolledBack) == 1) {
      // Written down first: a rollback that nobody remembers could not be
      // told from an order that was lost.
      rolled_back_.append(id);
      rolled_back_.sync();
      tx.rollback();
      tell({.kind = Kind::rolled_back, .id = id});
    } else {
      tx.commit();
      tell({.kind = Kind::committed, .id = id, .at = steady_clock::now()});
    }
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>{least, most}(random_); }

  Writer writer_;
  harness::Ledger rolled_back_;
  std::mt19937_64 random_;
};

// --- The dispatcher ---

Message message_of(const Event& event) {
  const std::string_view number = event.header("number").value_or("");
  Message message{.id = event.id(), .aggregate = event.aggregate_id()};
  const char* const end = number.data() + number.size();
  if (number.empty() || std::from_chars(number.data(), end, message.number).ptr != end) {
    throw PermanentError("no number in the headers of event " + event.id());
  }
  return message;
}

// Hands events to the receiver, and says when it goes away and comes back.
class ToReceiver final : public Listener {
 public:
  explicit ToReceiver(const RunDirectory& directory) : client_(directory.socket(), 1s) {}

  Outcome on_event(const Event& event, const Delivery&) override {
    try {
      client_.deliver(message_of(event));
    } catch (const UnavailableError& error) {
      if (!away_.exchange(true)) tell({.text = std::string(error.what()) + "; events wait"});
      throw;
    }
    if (away_.exchange(false)) tell({.text = "the receiver is back"});
    return Outcome::done();
  }

 private:
  harness::Client client_;
  std::atomic<bool> away_{false};
};

Listeners listeners(const RunDirectory& directory) {
  Listeners on;
  on.add(kAggregate, kEvent,
         std::static_pointer_cast<Listener>(std::make_shared<ToReceiver>(directory)));
  return on;
}

}  // namespace

void run(const WriterOptions& options) {
  name_this_thread("outbox-write");  // or it would be called "exe"
  Signals stop;
  Shop shop(options);
  tell({.kind = Kind::ready});
  const std::chrono::microseconds step{1'000'000 / options.rate};
  auto next = steady_clock::now();
  while (true) {
    try {
      shop.sell();
    } catch (const RetryableError& error) {
      tell({.text = std::string("could not sell: ") + error.what()});
      if (stop.wait_for(kPause)) return;
    }
    // A shop that fell behind does not make up for it: customers do not wait.
    next = std::max(next + step, steady_clock::now() - step);
    if (stop.wait_for(std::chrono::duration_cast<std::chrono::microseconds>(
            std::max(next - steady_clock::now(), steady_clock::duration::zero())))) {
      return;
    }
  }
}

void run(const DispatcherOptions& options) {
  name_this_thread("outbox-dispatch");  // or it would be called "exe"
  Signals stop;
  Outbox box{open_shop(options.directory.database.string(), telling_log()),
             listeners(options.directory),
             {// Whoever heals the receiver wants to see the events flow at once.
              .breaker = {.max_pause = 500ms},
              // The kills come from outside: no event is to blame for them.
              .max_solo_crashes = 1000,
              .name = "demo",
              .log = telling_log()}};
  box.start();
  tell({.kind = Kind::ready});
  stop.wait();
  box.close();
}

void run(const ReceiverOptions& options) {
  name_this_thread("outbox-receive");  // or it would be called "exe"
  const Signals stop;
  const std::string receipts = options.directory.receipts();
  std::unordered_set<std::string> known;
  for (const Message& message : harness::read_messages(receipts)) known.insert(message.id);
  harness::Receiver receiver(
      {.ledger = receipts,
       .socket = options.directory.socket(),
       .sync = true,
       .forget_one = options.forget_one && known.empty(),  // else an earlier process has done so
       .on_message = [&known](const Message& message, Moment at) {
         const bool is_new = known.insert(message.id).second;
         tell({.kind = is_new ? Kind::received : Kind::duplicate, .id = message.id, .at = at});
       }});
  tell({.kind = Kind::ready});
  receiver.serve(stop);
}

}  // namespace outbox::demo
