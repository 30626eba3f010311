// An instance that is stopped beyond its lease, and comes back.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "database.h"
#include "harness/ledger.h"
#include "harness/process.h"
#include "outbox/outbox.h"
#include "support/services.h"
#include "support/temporary_directory.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::minutes kPatience{2};

template <class Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

// Writes down that updates came too late.
class StaleUpdates final : public Metrics {
 public:
  explicit StaleUpdates(harness::Ledger& ledger) : ledger_(ledger) {}
  void add(Counter counter, std::uint64_t) noexcept override {
    if (counter == Counter::stale_updates) ledger_.append("stale");
  }
  void set(Gauge, double) noexcept override {}
  void observe(Timing, std::chrono::nanoseconds) noexcept override {}

 private:
  harness::Ledger& ledger_;
};

class ZombieTest : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_SERVICE(GetParam().server);
    database_ = GetParam().make();
    const auto store = database_->open();
    database_->connect(*store)->execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
        " VALUES ('the-one', 'Happened', 'Order', '1', '1')");
  }

  // In another process, until it is told to end.
  int deliver(const std::function<Outcome()>& answer) {
    harness::Signals signals{SIGTERM, SIGUSR1};
    harness::Ledger updates(directory_.file("updates"));
    Listeners on;
    on.add("Order", "Happened", [&](const Event&, const Delivery&) { return answer(); });
    Outbox box{database_->open(),
               on,
               {.lease = {.duration = 2s},
                .log = no_log(),
                .metrics = std::make_shared<StaleUpdates>(updates)}};
    box.start();
    while (signals.wait() != SIGTERM) {
    }
    box.close();
    return 0;
  }

  static Logger no_log() {
    return [](const LogRecord&) {};
  }

  void say(const std::string& what) { harness::Ledger(directory_.file(what)).append("now"); }
  bool said(const std::string& what) const {
    return std::filesystem::exists(directory_.file(what));
  }

  std::string state() {
    const EventRecord record = store_->admin().find("the-one").value();
    return std::to_string(static_cast<int>(record.row.status)) + ", " +
           std::to_string(record.row.attempts) + " attempts, " + record.last_error;
  }

  test::TemporaryDirectory directory_;
  std::unique_ptr<chaos::Database> database_;
  std::shared_ptr<Store> store_;
};

TEST_P(ZombieTest, ItsLateUpdateChangesNothing) {
  harness::Process first([this] {
    return deliver([this] {
      say("inside");
      while (!said("taken over")) std::this_thread::sleep_for(10ms);
      return Outcome::permanent("the late one's opinion");
    });
  });
  ASSERT_TRUE(eventually([&] { return said("inside"); }));
  first.signal(SIGSTOP);
  harness::Process second(
      [this] { return deliver([] { return Outcome::failed("the second one's opinion", 1h); }); });
  store_ = database_->open();
  const std::string by_the_second = "2, 1 attempts, the second one's opinion";
  ASSERT_TRUE(eventually([&] { return state() == by_the_second; })) << state();
  say("taken over");
  first.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return !harness::read_lines(directory_.file("updates")).empty(); }));
  EXPECT_EQ(state(), by_the_second);
  for (harness::Process* each : {&first, &second}) {
    each->signal(SIGTERM);
    EXPECT_EQ(each->wait(kPatience), harness::ExitStatus{});
  }
  EXPECT_EQ(state(), by_the_second);
}

OUTBOX_ON_EVERY_SERVER(ZombieTest);

}  // namespace
}  // namespace outbox
