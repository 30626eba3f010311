// What order_test.cc cannot ask of every server. Sweeps are far away here: what only a
// sweep would find counts as lost.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outbox/outbox.h"
#include "outbox/postgres.h"
#include "outbox/testing.h"
#include "support/postgres.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kPatience{60};

// So many rows that the reader raises its floor several times meanwhile.
constexpr int kMany = 2'000;

class PostgresOrderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_.emplace();
    url_ = test::postgres_url() + "?options=-csearch_path%3D" + schema_->name();
    store_ = postgres::open(url_, {.log = log_.log()});
    test::Sql(url_).execute(
        "CREATE TABLE aggregate (id text PRIMARY KEY, version bigint NOT NULL);"
        "INSERT INTO aggregate VALUES ('slow', 0)");
    start();
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

  // Takes the lock of the aggregate, then the next number, then writes: as SQL that
  // knows nothing of the library.
  static std::string plain_event(const std::string& aggregate) {
    return "UPDATE aggregate SET version = version + 1 WHERE id = '" + aggregate +
           "';"
           "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)"
           " SELECT gen_random_uuid(), 'Happened', 'Order', id, version FROM aggregate"
           " WHERE id = '" +
           aggregate + "';";
  }

  static Draft draft(const std::string& aggregate, const std::string& number) {
    return {.type = "Happened",
            .aggregate_type = "Order",
            .aggregate_id = aggregate,
            .payload = json(number)};
  }

  // The same by the library.
  static void write_next(Writer& writer, const std::string& aggregate) {
    auto tx = writer.begin();
    const auto version = tx.query_one<std::int64_t>(
        "UPDATE aggregate SET version = version + 1 WHERE id = $1 RETURNING version", aggregate);
    tx.write(draft(aggregate, std::to_string(version)));
    tx.commit();
  }

  // Of other aggregates; until they have all been delivered.
  void deliver_many() {
    const std::size_t before = recorder_->count();
    for (int n = 0; n < kMany; n += 50) {
      std::vector<Draft> drafts;
      for (int i = 0; i < 50; ++i) drafts.push_back(draft("other" + std::to_string(n + i), "1"));
      auto tx = box_->begin();
      tx.write_all(drafts);
      tx.commit();
    }
    ASSERT_TRUE(recorder_->wait_for(before + kMany, kPatience)) << "some were passed over";
  }

  void start() {
    Listeners on;
    on.add("Order", "Happened", recorder_);
    box_ = std::make_unique<Outbox>(
        store_, on, Options{.mode = Mode::multi_node, .poll_interval = 10min, .log = log_.log()});
    box_->start();
  }

  testing::RecordingLog log_;
  std::shared_ptr<testing::RecordingListener> recorder_ =
      std::make_shared<testing::RecordingListener>();
  std::optional<test::Schema> schema_;
  std::string url_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Outbox> box_;
};

TEST_F(PostgresOrderTest, APreparedTransactionThatCommitsLateIsNotPassedOver) {
  const std::string name = "'" + schema_->name() + "'";
  {
    test::Sql late(url_);
    late.execute("BEGIN");
    late.execute(plain_event("slow"));
    late.execute("PREPARE TRANSACTION " + name);
  }
  deliver_many();
  deliver_many();
  EXPECT_FALSE(delivered().contains("slow"));
  test::Sql(url_).execute("COMMIT PREPARED " + name);
  write_next(box_->writer(), "slow");
  ASSERT_TRUE(box_->wait_idle(kPatience));
  EXPECT_EQ(delivered()["slow"], one_to(2));
  EXPECT_EQ(recorder_->count(), 2u * kMany + 2);
}

// By their clock the event occurs tomorrow.
TEST_F(PostgresOrderTest, EventsOfAHostWhoseClockIsAheadAreDeliveredAtOnce) {
  box_->close();
  testing::ManualClock ahead(host_clock().now() + 24h);
  for (const bool row_claims : {false, true}) {
    SCOPED_TRACE(row_claims ? "row claims" : "shards");
    Listeners on;
    on.add("Order", "Happened", recorder_);
    Outbox box{store_,
               on,
               {.mode = Mode::multi_node,
                .ordering = row_claims ? Ordering::none : Ordering::per_aggregate,
                .row_claims = row_claims,
                .log = log_.log()}};
    box.start();
    Writer elsewhere{postgres::open(url_, {.log = log_.log(), .clock = &ahead})};
    write_next(elsewhere, "slow");
    EXPECT_TRUE(box.wait_idle(20s));
  }
  EXPECT_EQ(delivered()["slow"], one_to(2));
}

}  // namespace
}  // namespace outbox
