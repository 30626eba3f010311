// Order and completeness on servers, where a row takes its place in the table long before
// anybody can see it; and Mode::ordered there: writers that take turns, in several processes, and
// instances that die.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "database.h"
#include "fleet.h"
#include "observer.h"
#include "outbox/outbox.h"
#include "outbox/testing.h"
#include "support/services.h"
#include "workload.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using chaos::next_numbers;
using counted::Fleet;

constexpr std::chrono::seconds kPatience{60};

// So many rows that a reader which keeps a floor raises it several times meanwhile.
constexpr int kMany = 2'000;

constexpr const char* kSlow = "slow0";
constexpr const char* kShared = "a0";

class OrderTest : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_SERVICE(GetParam().server);
    database_ = GetParam().make();
    observer_.emplace(*database_);
    store_ = database_->open();
    Listeners on;
    on.add("Order", "Happened", recorder_);
    box_ = std::make_unique<Outbox>(store_, on,
                                    Options{.mode = Mode::multi_node,
                                            .poll_interval = database_->poll_interval(),
                                            .log = log_.log()});
    box_->start();
  }

  // The numbers of each aggregate, in the order of their delivery.
  std::map<std::string, std::vector<int>> delivered() const {
    std::map<std::string, std::vector<int>> result;
    for (const auto& call : recorder_->calls()) {
      result[call.event.aggregate_id()].push_back(std::stoi(call.event.payload()));
    }
    return result;
  }

  static std::vector<int> one_to(int last) {
    std::vector<int> numbers;
    for (int n = 1; n <= last; ++n) numbers.push_back(n);
    return numbers;
  }

  static Draft draft(const std::string& aggregate, std::int64_t number) {
    return {.type = "Happened",
            .aggregate_type = "Order",
            .aggregate_id = aggregate,
            .payload = json(std::to_string(number))};
  }

  // Takes the lock of the aggregate, then the next number, then writes.
  static void write_next(Writer& writer, const std::string& aggregate) {
    auto tx = writer.begin();
    tx.write(draft(aggregate, next_numbers(tx.connection(), aggregate)));
    tx.commit();
  }

  // The same in a transaction of one's own, as SQL that knows nothing of the library.
  static void write_plainly(chaos::OwnConnection& own, const std::string& aggregate) {
    const std::int64_t number = next_numbers(own.connection(), aggregate);
    own.execute(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
        " VALUES ('" +
        new_id() + "', 'Happened', 'Order', '" + aggregate + "', '" + std::to_string(number) +
        "')");
  }

  // Of other aggregates; until they have all been delivered.
  void deliver_many() {
    const std::size_t before = recorder_->count();
    for (int n = 0; n < kMany; n += 50) {
      std::vector<Draft> drafts;
      for (int i = 0; i < 50; ++i) drafts.push_back(draft("other" + std::to_string(n + i), 1));
      auto tx = box_->begin();
      tx.write_all(drafts);
      tx.commit();
    }
    ASSERT_TRUE(recorder_->wait_for(before + kMany, kPatience)) << "some were passed over";
  }

  testing::RecordingLog log_;
  std::shared_ptr<testing::RecordingListener> recorder_ =
      std::make_shared<testing::RecordingListener>();
  std::unique_ptr<chaos::Database> database_;
  std::optional<chaos::Observer> observer_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Outbox> box_;
};

TEST_P(OrderTest, ATransactionThatTookItsPlaceEarlyAndCommitsLateIsNotPassedOver) {
  const auto late = database_->connect(*store_);
  late->begin();
  write_plainly(*late, kSlow);
  deliver_many();
  std::jthread next([&] { write_next(box_->writer(), kSlow); });  // waits for the lock
  deliver_many();
  EXPECT_FALSE(delivered().contains(kSlow));
  write_plainly(*late, kSlow);
  late->commit();
  next.join();
  ASSERT_TRUE(box_->wait_idle(kPatience));
  EXPECT_EQ(delivered()[kSlow], one_to(3));
  EXPECT_EQ(recorder_->count(), 2u * kMany + 3);
}

TEST_P(OrderTest, TwoWritersOfOneAggregateAndPlainSqlBetweenThemKeepItsOrder) {
  constexpr int kEach = 150;
  Writer elsewhere{database_->open()};
  {
    std::vector<std::jthread> writers;
    for (Writer* writer : {&box_->writer(), &elsewhere}) {
      writers.emplace_back([writer] {
        for (int n = 0; n < kEach; ++n) write_next(*writer, kShared);
      });
    }
    const auto plain = database_->connect(*store_);
    for (int n = 0; n < kEach; ++n) {
      plain->begin();
      write_plainly(*plain, kShared);
      plain->commit();
    }
  }
  write_next(box_->writer(), kShared);  // tells of what plain SQL wrote last
  ASSERT_TRUE(box_->wait_idle(kPatience));
  EXPECT_EQ(delivered()[kShared], one_to(3 * kEach + 1));
}

// Only PostgreSQL's outlive their connections.
TEST_P(OrderTest, APreparedTransactionThatCommitsLateIsNotPassedOver) {
  if (GetParam().server != chaos::kPostgres.server) GTEST_SKIP() << "there are none";
  const std::string name = "'" + new_id() + "'";
  {
    const auto late = database_->connect(*store_);
    late->begin();
    write_plainly(*late, kSlow);
    late->execute("PREPARE TRANSACTION " + name);
  }
  deliver_many();
  deliver_many();
  EXPECT_FALSE(delivered().contains(kSlow));
  database_->connect(*store_)->execute("COMMIT PREPARED " + name);
  write_next(box_->writer(), kSlow);
  ASSERT_TRUE(box_->wait_idle(kPatience));
  EXPECT_EQ(delivered()[kSlow], one_to(2));
  EXPECT_EQ(recorder_->count(), 2u * kMany + 2);
}

OUTBOX_ON_EVERY_SERVER(OrderTest);

// --- One order of all events ---

constexpr std::size_t kEvents = 3'000;

class OneOrderOfAllTest : public ::testing::TestWithParam<chaos::TemporaryDatabase> {
 protected:
  void SetUp() override { OUTBOX_NEEDS_SERVICE(GetParam().server); }
};

TEST_P(OneOrderOfAllTest, IsThatOfWritersWhoTakeTurns) {
  Fleet fleet(GetParam(), {.mode = Mode::ordered});
  for (int n = 0; n < 2; ++n) fleet.start_instance(kEvents / 5);
  fleet.start_writer(kEvents / 5);
  for (int n = 0; n < 2; ++n) fleet.start_plain_writer(kEvents / 5);
  const harness::Verdict verdict = fleet.finish(kEvents);
  EXPECT_TRUE(verdict.clean()) << verdict;
}

TEST_P(OneOrderOfAllTest, IsKeptWhenTheOwnerIsKilledAndTheNextOneLosesItsLease) {
  Fleet fleet(GetParam(), {.mode = Mode::ordered, .lease = 3s});
  Fleet::Member& killed = fleet.start_instance();
  fleet.wait_for_members(1);
  Fleet::Member& stopped = fleet.start_instance();
  fleet.wait_for_members(2);
  fleet.start_writer(kEvents / 3);
  fleet.start_plain_writer(kEvents / 3);
  fleet.wait_for_arrivals(kEvents / 10);
  killed.signal(SIGKILL);
  fleet.wait_for_arrivals(kEvents / 4);
  fleet.start_instance(kEvents / 3);
  fleet.wait_for_members(2);
  stopped.signal(SIGSTOP);
  fleet.wait_until_forgotten(stopped);
  stopped.signal(SIGCONT);
  const harness::Verdict verdict = fleet.finish(kEvents, 1);
  EXPECT_TRUE(verdict.clean()) << verdict;
}

OUTBOX_ON_EVERY_SERVER(OneOrderOfAllTest);

}  // namespace
}  // namespace outbox
