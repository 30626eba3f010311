// Rows whose transactions end late, while the floor rises: none is ever passed over.
#include "store/postgres/reader.h"

#include <libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <numeric>

#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

class PostgresReaderTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    open_at(test::postgres_url());
  }

  void open_at(const std::string& url) {
    store_ = open_store_at(url, {.notify = false});
    instance_ = store_->join({.lease = 60s});
    lease_ = instance_->renew();
  }

  std::string insert_rows(const std::string& prefix, int number) const {
    return "INSERT INTO " + table() + " (event_id, event_type, payload) SELECT '" + prefix +
           "' || i, 'T', '{}' FROM generate_series(1, " + std::to_string(number) + ") AS i";
  }

  // Reads and updates all that is there; the ids that did not come from `prefix`.
  std::vector<std::string> deliver(const std::string& prefix) {
    std::vector<std::string> others;
    Rows rows;
    do {
      rows = instance_->ready(lease_.shards, 0, 500);
      std::vector<StatusUpdate> updates;
      for (const Row& row : rows.rows) {
        updates.push_back({.row = row.ref, .event_id = row.event.id()});
        if (!row.event.id().starts_with(prefix)) others.push_back(row.event.id());
      }
      if (!updates.empty()) {
        const UpdateResult applied = instance_->apply(lease_.epoch, updates);
        EXPECT_FALSE(applied.fenced);
        EXPECT_TRUE(applied.stale.empty());
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

  // As an engine does: again if a lock was not to be had in time.
  std::vector<std::string> read_patiently() {
    for (;;) {
      try {
        return ids(instance_->ready(lease_.shards, 0, 500).rows);
      } catch (const RetryableError&) {
        // A read waits for a lock only in these tests.
      }
    }
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  Lease lease_;
};

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

// First the last number is looked up, then who writes. The other way round, somebody who begins in
// between has a number up to that one and is waited for by nobody.
TEST_F(PostgresReaderTest, AWriterWhoBeginsBetweenTheTwoLooksIsNotPassedOver) {
  // The look for writers calls current_database(), which waits here for the test to go on. It
  // does so when it has the list of locks and finds one of the table in it: a reader's.
  const std::string gate = "pg_advisory_lock(hashtext('" + schema() + "'))";
  sql().execute("CREATE FUNCTION " + schema() +
                ".current_database() RETURNS name VOLATILE LANGUAGE plpgsql AS $$ BEGIN PERFORM "
                "pg_advisory_xact_lock_shared(hashtext('" +
                schema() + "')); RETURN pg_catalog.current_database(); END $$");
  instance_->leave();
  open_at(test::postgres_url() + "?options=-csearch_path%3D" + schema() + ",pg_catalog,public");
  sql().execute(insert_rows("warm", 300));
  EXPECT_TRUE(deliver("warm").empty());
  test::Sql keeper;
  keeper.execute("SELECT " + gate);
  test::Sql reader;
  reader.execute("BEGIN; SELECT FROM " + table() + " LIMIT 1");

  auto reading = std::async(std::launch::async, [&] { return read_patiently(); });
  EXPECT_TRUE(eventually([&] { return test::is_waited_for(sql(), keeper); }));
  test::Sql late;
  late.execute("BEGIN");
  late.execute(insert_rows("late", 1));
  sql().execute(insert_rows("after", 1));
  keeper.execute("SELECT pg_advisory_unlock_all()");
  EXPECT_EQ(reading.get(), std::vector<std::string>{"after1"});
  EXPECT_EQ(deliver("after"), std::vector<std::string>{});
  late.execute("COMMIT");
  EXPECT_EQ(deliver("none"), std::vector<std::string>{"late1"});
}

// The looks come before the read that relies on them. The other way round, what is committed in
// between is below the floor, and was not returned.
TEST_F(PostgresReaderTest, ARowThatIsCommittedBeforeTheLooksIsInTheReadThatReliesOnThem) {
  // A statement is prepared when it is used for the second time, which would wait as well.
  for (int round = 0; round < 4; ++round) {
    sql().execute(insert_rows("warm" + std::to_string(round) + "_", 300));
    EXPECT_TRUE(deliver("warm").empty());
  }
  // The look for the last number waits for the session that changes the sequence.
  const std::string sequence =
      sql().value("SELECT pg_get_serial_sequence('" + table() + "', 'seq')");
  const std::string name = sequence.substr(sequence.find('.') + 1);
  test::Sql writer;
  writer.execute("BEGIN; ALTER SEQUENCE " + sequence + " RENAME TO other; ALTER SEQUENCE " +
                 schema() + ".other RENAME TO " + name);
  auto reading = std::async(std::launch::async, [&] { return read_patiently(); });
  EXPECT_TRUE(eventually([&] { return test::is_waited_for(sql(), writer); }));
  writer.execute(insert_rows("between", 1));
  writer.execute("COMMIT");
  std::vector<std::string> found = reading.get();
  if (found.empty()) found = deliver("none");
  EXPECT_EQ(found, std::vector<std::string>{"between1"});
}

TEST_F(PostgresReaderTest, ARewindReturnsRowsThatWereReadButNotUpdated) {
  sql().execute(insert_rows("early", 3));
  const Rows read = instance_->ready(lease_.shards, 0, 10);
  ASSERT_EQ(read.rows.size(), 3U);
  for (int round = 0; round < 3; ++round) {
    sql().execute(insert_rows("more" + std::to_string(round) + "_", 1'000));
    Rows rows;
    do {
      rows = instance_->ready(lease_.shards, 3, 500);
      std::vector<StatusUpdate> updates;
      for (const Row& row : rows.rows) {
        if (row.event.id().starts_with("more")) {
          updates.push_back({.row = row.ref, .event_id = row.event.id()});
        }
      }
      if (!updates.empty()) instance_->apply(lease_.epoch, updates);
    } while (rows.more);
  }
  Seq lowest = read.rows.front().ref.seq;
  for (const Row& row : read.rows) lowest = std::min(lowest, row.ref.seq);
  instance_->rewind(lowest);
  EXPECT_EQ(deliver("more").size(), 3U);
}

// What a poll visits while somebody's old snapshot keeps the vacuum from its work.

class PostgresOldSnapshotTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    open_store();
    const auto config = std::make_shared<StoreConfig>(test::postgres_url());
    config->table = TableName::parse(table());
    config->options.prepare = true;
    config->options.codec = default_json_codec();
    database_ = std::make_unique<Database>(config);
    database_->go_by_index_alone();
    reader_ = std::make_unique<Reader>(*database_, generations_, false);
    std::iota(shards_.begin(), shards_.end(), 0);

    report_ = std::make_unique<test::Sql>();
    report_->execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    report_->execute("SELECT count(*) FROM " + table());
  }

  // So many polls, each of which finds new events, which are finished then; the most
  // pages that one of them visited.
  long deliver(int polls) {
    long most = 0;
    for (int poll = 0; poll < polls; ++poll) {
      sql().execute("INSERT INTO " + table() +
                    " (event_id, event_type, payload)"
                    " SELECT gen_random_uuid(), 'T', '{}' FROM generate_series(1, 500)");
      Rows rows;
      most = std::max(most, visited_by([&] { rows = reader_->ready(shards_, 0, 1'000); }));
      EXPECT_EQ(rows.rows.size(), 500U);
      finish(rows.rows);
    }
    return most;
  }

  // Pages of the table and its indexes. Within one transaction, because what a session
  // has counted may be gone after that.
  template <class Work>
  long visited_by(Work work) {
    database_->session().run_script("BEGIN", "begin");
    const long before = visited();
    work();
    const long after = visited();
    database_->session().run_script("COMMIT", "commit");
    return after - before;
  }

  std::unique_ptr<Reader> reader_;
  PerShard<int> shards_{};  // all

 private:
  void finish(const std::vector<Row>& rows) {
    std::string list;
    for (const Row& row : rows) list += (list.empty() ? "'" : ", '") + row.event.id() + "'";
    sql().execute("UPDATE " + table() +
                  " SET status = 1, done_at = clock_timestamp(), hold = NULL WHERE event_id IN (" +
                  list + ")");
  }

  long visited() {
    const std::string oid = "'" + table() + "'::regclass";
    const ResultHandle sum = database_->session().try_script(
        ("SELECT sum(pg_stat_get_xact_blocks_fetched(part)) FROM (SELECT " + oid +
         "::oid UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = " + oid +
         ") AS parts (part)")
            .c_str());
    return std::atol(PQgetvalue(sum.get(), 0, 0));
  }

  std::unique_ptr<Database> database_;
  ShardGenerations generations_;
  std::unique_ptr<test::Sql> report_;
};

TEST_F(PostgresOldSnapshotTest, APollDoesNotWalkOverWhatTheSnapshotKeeps) {
  const long early = deliver(10);
  deliver(30);
  const long late = deliver(10);
  EXPECT_LE(late, early + early / 2);

  // That there is something to walk over:
  reader_->rewind(0);
  EXPECT_GT(visited_by([&] { reader_->ready(shards_, 0, 1'000); }), 10 * late);
}

}  // namespace

}  // namespace outbox::postgres
