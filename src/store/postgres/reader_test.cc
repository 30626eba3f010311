// Rows whose transactions end late, while the floor rises: none is ever passed over.
#include <algorithm>

#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

class PostgresReaderTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store({.notify = false});
    instance_ = store_->join({});
    tenure_ = instance_->renew();
  }

  std::string insert_rows(const std::string& prefix, int number) const {
    return "INSERT INTO " + table() + " (event_id, event_type, payload) SELECT '" + prefix +
           "' || i, 'T', '{}' FROM generate_series(1, " + std::to_string(number) + ") AS i";
  }

  // Reads and marks all that is there; the ids that did not come from `prefix`.
  std::vector<std::string> deliver(const std::string& prefix) {
    std::vector<std::string> others;
    Rows rows;
    do {
      rows = instance_->ready(tenure_.shards, 0, 500);
      std::vector<Mark> marks;
      for (const Row& row : rows.rows) {
        marks.push_back({.row = row.ref, .event_id = row.event.id()});
        if (!row.event.id().starts_with(prefix)) others.push_back(row.event.id());
      }
      if (!marks.empty()) {
        const MarkResult marked = instance_->mark(tenure_.epoch, marks);
        EXPECT_FALSE(marked.fenced);
        EXPECT_TRUE(marked.stale.empty());
      }
    } while (rows.more);
    return others;
  }

  // The first reads of an instance begin at the lowest row anyway.
  void deliver_rounds(int rounds, const std::string& name) {
    for (int round = 0; round < rounds; ++round) {
      const std::string prefix = name + std::to_string(round) + "_";
      sql().execute(insert_rows(prefix, 2'000));
      EXPECT_TRUE(deliver(prefix).empty());
    }
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Tenure tenure_;
};

TEST_F(PostgresReaderTest, ADelayIsCountedByTheServersClock) {
  instance_->leave();
  for (const bool prepare : {true, false}) {
    test::expect_delays_whatever_the_writers_clock_says(
        [&](const Clock& clock) { return open_store({.prepare = prepare, .clock = &clock}); });
  }
}

TEST_F(PostgresReaderTest, ARowThatIsCommittedLateIsReturnedAfterThousandsThatOvertookIt) {
  deliver_rounds(1, "warm");
  test::Sql late;
  late.execute("BEGIN");
  late.execute(insert_rows("late", 1));
  deliver_rounds(3, "overtakes");
  test::Sql later;  // joins while the floor waits for the first
  later.execute("BEGIN");
  later.execute(insert_rows("later", 1));
  deliver_rounds(3, "more");
  late.execute("COMMIT");
  EXPECT_EQ(deliver("none"), std::vector<std::string>{"late1"});
  deliver_rounds(3, "yet");
  later.execute("COMMIT");
  EXPECT_EQ(deliver("none"), std::vector<std::string>{"later1"});
}

TEST_F(PostgresReaderTest, ARowOfAPreparedTransactionIsReturnedHoweverLate) {
  if (sql().value("SHOW max_prepared_transactions") == "0") {
    GTEST_SKIP() << "the server allows no prepared transactions";
  }
  const std::string name = "'" + schema() + "'";
  deliver_rounds(1, "warm");
  {
    test::Sql gone;
    gone.execute("BEGIN");
    gone.execute(insert_rows("prepared", 1));
    deliver_rounds(2, "open");
    gone.execute("PREPARE TRANSACTION " + name);
  }
  deliver_rounds(3, "overtakes");
  sql().execute("COMMIT PREPARED " + name);
  EXPECT_EQ(deliver("none"), std::vector<std::string>{"prepared1"});
}

TEST_F(PostgresReaderTest, AWriterWhoseLockIsTakenBeforeItsNumberIsWaitedFor) {
  deliver_rounds(1, "warm");
  test::Sql late;
  late.execute("BEGIN");
  late.execute("LOCK TABLE " + table() + " IN ROW EXCLUSIVE MODE");
  late.execute(insert_rows("first", 1));
  deliver_rounds(2, "overtakes");
  late.execute(insert_rows("second", 1));
  deliver_rounds(2, "more");
  late.execute("COMMIT");
  const std::vector<std::string> found = deliver("none");
  EXPECT_EQ(found.size(), 2U);
}

TEST_F(PostgresReaderTest, ARewindReturnsWhatWasReadButNotMarked) {
  sql().execute(insert_rows("early", 3));
  const Rows read = instance_->ready(tenure_.shards, 0, 10);
  ASSERT_EQ(read.rows.size(), 3U);
  for (int round = 0; round < 3; ++round) {
    sql().execute(insert_rows("more" + std::to_string(round) + "_", 1'000));
    Rows rows;
    do {
      rows = instance_->ready(tenure_.shards, 3, 500);
      std::vector<Mark> marks;
      for (const Row& row : rows.rows) {
        if (row.event.id().starts_with("more")) {
          marks.push_back({.row = row.ref, .event_id = row.event.id()});
        }
      }
      if (!marks.empty()) instance_->mark(tenure_.epoch, marks);
    } while (rows.more);
  }
  Seq lowest = read.rows.front().ref.seq;
  for (const Row& row : read.rows) lowest = std::min(lowest, row.ref.seq);
  instance_->rewind(lowest);
  EXPECT_EQ(deliver("more").size(), 3U);
}

}  // namespace
}  // namespace outbox::postgres
