// What a poll visits while somebody's old snapshot keeps the vacuum from its work.
#include <libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "store/postgres/reader.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

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
    reader_ = std::make_unique<Reader>(*database_, generations_);
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
