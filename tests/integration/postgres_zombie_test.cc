// An instance that is stopped beyond its lease, and comes back.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "ledger.h"
#include "outbox/outbox.h"
#include "outbox/postgres.h"
#include "process.h"
#include "role_signals.h"
#include "support/postgres.h"
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

// Writes down that marks came too late.
class StaleMarks final : public Metrics {
 public:
  explicit StaleMarks(chaos::Ledger& ledger) : ledger_(ledger) {}
  void add(Counter counter, std::uint64_t) noexcept override {
    if (counter == Counter::stale_marks) ledger_.append("stale");
  }
  void set(Gauge, double) noexcept override {}
  void observe(Timing, std::chrono::nanoseconds) noexcept override {}

 private:
  chaos::Ledger& ledger_;
};

class PostgresZombieTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
    url_ = test::postgres_url() + "?options=-csearch_path%3D" + schema_->name();
    postgres::migrate(url_);
    test::Sql(url_).execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
        " VALUES ('the-one', 'Happened', 'Order', '1', '1')");
  }

  // In another process, until it is told to end.
  int deliver(const std::function<Outcome()>& answer) {
    const chaos::RoleSignals signals;
    chaos::Ledger marks(directory_.file("marks"));
    Listeners on;
    on.add("Order", "Happened", [&](const Event&, const Delivery&) { return answer(); });
    Outbox box{postgres::open(url_),
               on,
               {.lease = 2s, .log = no_log(), .metrics = std::make_shared<StaleMarks>(marks)}};
    box.start();
    while (signals.wait() != SIGTERM) {
    }
    box.close();
    return 0;
  }

  static Logger no_log() {
    return [](LogLevel, std::string_view) {};
  }

  void say(const std::string& what) { chaos::Ledger(directory_.file(what)).append("now"); }
  bool said(const std::string& what) const {
    return std::filesystem::exists(directory_.file(what));
  }

  std::string state() {
    return sql_->value(
        "SELECT status || ', ' || attempts || ' attempts, ' || coalesce(last_error, 'no error')"
        " FROM outbox_event");
  }

  test::TemporaryDirectory directory_;
  std::optional<test::Schema> schema_;
  std::string url_;
  std::optional<test::Sql> sql_;
};

TEST_F(PostgresZombieTest, ItsLateMarkChangesNothing) {
  chaos::Process first([this] {
    return deliver([this] {
      say("inside");
      while (!said("taken over")) std::this_thread::sleep_for(10ms);
      return Outcome::permanent("the late one's opinion");
    });
  });
  ASSERT_TRUE(eventually([&] { return said("inside"); }));
  first.signal(SIGSTOP);
  chaos::Process second(
      [this] { return deliver([] { return Outcome::failed("the second one's opinion", 1h); }); });
  sql_.emplace(url_);
  const std::string by_the_second = "2, 1 attempts, the second one's opinion";
  ASSERT_TRUE(eventually([&] { return state() == by_the_second; })) << state();
  say("taken over");
  first.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return !chaos::read_lines(directory_.file("marks")).empty(); }));
  EXPECT_EQ(state(), by_the_second);
  for (chaos::Process* each : {&first, &second}) {
    each->signal(SIGTERM);
    EXPECT_EQ(each->wait(kPatience), "");
  }
  EXPECT_EQ(state(), by_the_second);
}

}  // namespace
}  // namespace outbox
