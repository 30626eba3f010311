#include "store/sqlite/admin.h"

#include <atomic>
#include <thread>

#include "outbox/error.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

// What only this store can show; the rest is in tests/conformance.
class OperatorsTest : public SqliteTest {
 protected:
  // Two DONE, two DEAD and a NEW one, long ago.
  void fill() {
    db_.run(
        "INSERT INTO outbox_event"
        " (event_id, event_type, payload, status, hold, done_at, created_at, last_error) VALUES"
        " ('d1', 'T', '{}', 1, NULL, 1000, 1000, NULL), ('d2', 'T', x'00ff', 1, NULL, 1000, 1000, "
        "NULL),"
        " ('x1', 'T', '{}', 3, NULL, 1000, 1000, 'a'), ('x2', 'T', '{}', 3, 7, 1000, 1000, 'b'),"
        " ('n', 'T', '{}', 0, 0, NULL, 1000, NULL)");
  }
  std::string rows() const { return db_.value("SELECT count(*) FROM outbox_event"); }
  std::string archived() const { return db_.value("SELECT count(*) FROM outbox_event_archive"); }
  Time now() const { return host_clock().now(); }

  const std::shared_ptr<Store> store_ = open_store({.wait_timeout = 50ms});
  const ForeignConnection db_{path()};
};

TEST_F(OperatorsTest, AnArchiveThatCannotBeWrittenLosesNothing) {
  fill();
  db_.run(
      "CREATE TRIGGER full BEFORE INSERT ON outbox_event_archive WHEN new.event_id = 'd2'"
      " BEGIN SELECT raise(ABORT, 'no room'); END");
  EXPECT_THROW(store_->admin().purge(Purgeable::done, now(), 0, 10, true), Error);
  EXPECT_EQ(rows(), "5");
  EXPECT_EQ(archived(), "0") << "not half of it either";
  db_.run("DROP TRIGGER full");
  EXPECT_EQ(store_->admin().purge(Purgeable::done, now(), 0, 10, true).rows, 2) << "and it goes on";
  EXPECT_EQ(archived(), "2");
}

TEST_F(OperatorsTest, ADeleteThatFailsLeavesNothingInTheArchive) {
  fill();
  db_.run(
      "CREATE TRIGGER kept BEFORE DELETE ON outbox_event WHEN old.event_id = 'd2'"
      " BEGIN SELECT raise(ABORT, 'referenced'); END");
  EXPECT_THROW(store_->admin().purge(Purgeable::done, now(), 0, 10, true), Error);
  EXPECT_EQ(rows(), "5");
  EXPECT_EQ(archived(), "0");
}

TEST_F(OperatorsTest, TheArchiveKeepsEveryColumnAsItWas) {
  fill();
  EXPECT_EQ(store_->admin().purge(Purgeable::any_age, now(), 0, 10, true).rows, 5);
  EXPECT_EQ(db_.value("SELECT group_concat(event_id || status || coalesce(hold, '-') ||"
                      " typeof(payload) || hex(payload) || coalesce(last_error, ''), ' ')"
                      " FROM (SELECT * FROM outbox_event_archive ORDER BY seq)"),
            "d11-text7B7D d21-blob00FF x13-text7B7Da x237text7B7Db n00text7B7D");
  EXPECT_EQ(db_.value("SELECT min(archived_at) > 1000000 FROM outbox_event_archive"), "1");
}

TEST_F(OperatorsTest, SearchesThatFindNothingDoNotWaitForWriters) {
  fill();
  db_.run("BEGIN IMMEDIATE");
  const Time long_ago = Time{};
  EXPECT_EQ(store_->admin().purge(Purgeable::done, long_ago, 0, 10, true).rows, 0);
  EXPECT_EQ(store_->admin().purge(Purgeable::dead, long_ago, 0, 10, true).rows, 0);
  EXPECT_EQ(store_->admin().purge(Purgeable::any_age, long_ago, 0, 10, true).rows, 0);
  EXPECT_EQ(store_->admin().replay({.type = "other"}, 0, 10).rows, 0);
  EXPECT_EQ(store_->admin().discard({.type = "other"}, 0, 10).rows, 0);
  EXPECT_EQ(store_->admin().list({}, 0, 10).size(), 5u);
  // The lock is what the others would have waited for.
  EXPECT_THROW(store_->admin().purge(Purgeable::done, now(), 0, 10, true), RetryableError);
  db_.run("COMMIT");
  EXPECT_EQ(store_->admin().purge(Purgeable::done, now(), 0, 10, true).rows, 2);
}

TEST_F(OperatorsTest, RowsOfOtherProgramsAreListedWithWhatIsWrongWithThem) {
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, created_at, headers, last_error)"
      " VALUES ('odd', 'T', 5, 'yesterday', 'no json', x'00ff00')");
  const auto records = store_->admin().list({.status = {Status::pending}}, 0, 10);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(contains(records[0].row.defect, "created_at"));
  EXPECT_TRUE(contains(records[0].row.defect, "headers"));
  EXPECT_EQ(store_->counts().pending, 1);
  EXPECT_EQ(store_->admin().purge(Purgeable::any_age, now(), 0, 10, false).rows, 0)
      << "a row without a time is not old";
}

TEST_F(OperatorsTest, AnAggregateTypeThatIsMissingIsTheGlobalOne) {
  db_.run(
      "INSERT INTO outbox_event (event_id, event_type, payload, aggregate_type, status, hold,"
      " done_at) VALUES ('a', 'T', '{}', NULL, 3, NULL, 1), ('b', 'T', '{}', '', 3, NULL, 1),"
      " ('c', 'T', '{}', '__GLOBAL__', 3, NULL, 1)");
  EXPECT_EQ(store_->admin().count({.aggregate_type = std::string(kGlobalAggregate)}), 3);
  EXPECT_EQ(store_->admin().dead_groups({}, 10).size(), 1u);
}

TEST_F(OperatorsTest, TheOwnerOfAnotherProcessIsSeenAliveAndDead) {
  const Milestone owning;
  ChildProcess child([&] {
    const auto own = sqlite::open(path(), {.durability = Durability::normal});
    const auto instance = own->join({.name = "child"});
    if (instance->renew().epoch == 0) return 1;
    owning.reach();
    return pause();
  });
  ASSERT_TRUE(owning.wait());
  auto members = store_->admin().members();
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].name, "child");
  EXPECT_NE(members[0].pid, getpid());
  EXPECT_TRUE(members[0].alive);
  child.kill_now();
  members = store_->admin().members();
  ASSERT_EQ(members.size(), 1u);
  EXPECT_FALSE(members[0].alive);
  EXPECT_TRUE(members[0].shards.empty());
  // Asking does not keep the next owner out.
  EXPECT_NE(store_->join({})->renew().epoch, 0);
}

TEST_F(OperatorsTest, ManySearchesAtOnceDoNotKeepTheQuickOnesWaiting) {
  fill();
  std::atomic<bool> done = false;
  std::vector<std::jthread> searches;
  for (int i = 0; i < 4; ++i) {
    searches.emplace_back([&] {
      while (!done) static_cast<void>(store_->admin().dead_groups({}, 10));
    });
  }
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(store_->admin().find("n"));
  done = true;
}

}  // namespace
}  // namespace outbox::sqlite
