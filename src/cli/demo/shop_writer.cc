#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "base/thread.h"
#include "cli/demo/ledger.h"
#include "cli/demo/report.h"
#include "cli/demo/role.h"
#include "cli/demo/shop.h"
#include "cli/demo/stop_signal.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using Kind = Report::Kind;
using std::chrono::steady_clock;

constexpr int kCustomers = 20;
constexpr int kOneInSoManyRolledBack = 10;

// How long to leave a database alone that does not let us write.
constexpr std::chrono::milliseconds kPause{200};

class Shop {
 public:
  explicit Shop(const WriterRole& role)
      : writer_(open_shop(role.workplace.database.string(), telling_log())),
        rolled_back_(role.workplace.rollbacks()),
        random_(role.seed) {}

  void sell() {
    const std::string customer = "customer-" + std::to_string(pick(1, kCustomers));
    const int cents = pick(100, 20'000);
    auto tx = writer_.begin();
    const Order order = place_order(tx, customer, cents);
    if (pick(1, kOneInSoManyRolledBack) == 1) {
      // Written down first: a rollback that nobody remembers could not be
      // told from an order that was lost.
      rolled_back_.append(order.event_id);
      rolled_back_.sync();
      tx.rollback();
      tell({.kind = Kind::rolled_back, .id = order.event_id});
    } else {
      tx.commit();
      tell({.kind = Kind::committed, .id = order.event_id, .at = steady_clock::now()});
    }
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>{least, most}(random_); }

  Writer writer_;
  Ledger rolled_back_;
  std::mt19937_64 random_;
};

}  // namespace

void run(const WriterRole& role) {
  name_this_thread("outbox-write");  // or it would be called "exe"
  StopSignal stop;
  Shop shop(role);
  tell({.kind = Kind::ready});
  const std::chrono::microseconds step{1'000'000 / role.rate};
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

}  // namespace outbox::demo
