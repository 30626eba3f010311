// Progress by position: transactions that end late, take-overs, lost connections, and what is
// stored when.
#include "store/postgres/position_reader.h"

#include <algorithm>
#include <map>
#include <set>

#include "outbox/admin/admin.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;

// An instance as an engine uses it.
class Member {
 public:
  explicit Member(Store& store)
      : instance_(store.join({.lease = 60s})), lease_(instance_->renew()) {}

  Ids read(std::size_t limit = 1'000) {
    const Rows rows = instance_->ready(lease_.shards, refs_.size(), limit);
    more_ = rows.more;
    for (const Row& row : rows.rows) {
      refs_[row.event.id()] = row.ref;
      seqs_.push_back(row.ref.seq);
    }
    return ids(rows.rows);
  }
  bool more() const { return more_; }
  const std::vector<Seq>& seqs() const { return seqs_; }

  UpdateResult update(const Ids& events, Kind kind = Kind::done, LaneKey lane = kNoLane) {
    std::vector<StatusUpdate> updates;
    for (const std::string& id : events) {
      updates.push_back({.row = refs_.at(id),
                         .event_id = id,
                         .kind = kind,
                         .lane = lane,
                         .attempts = 1,
                         .delay = 1h,
                         .error = "no"});
    }
    return instance_->apply(lease_.epoch, updates);
  }
  FlushResult flush() { return instance_->flush(lease_.epoch, true); }
  void finish(const Ids& events) {
    EXPECT_TRUE(update(events).stale.empty());
    EXPECT_FALSE(flush().fenced);
  }

  Instance& instance() { return *instance_; }
  const Lease& lease() const { return lease_; }

 private:
  std::unique_ptr<Instance> instance_;
  Lease lease_;
  std::map<std::string, RowRef> refs_;
  std::vector<Seq> seqs_;
  bool more_ = false;
};

class PostgresPositionTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    store_ = open_store({.progress = Progress::position, .notify = false});
  }

  std::string insertion(const std::string& id, const std::string& aggregate = "1") const {
    return "INSERT INTO " + table() + " (event_id, event_type, aggregate_id, payload) VALUES ('" +
           id + "', 'T', '" + aggregate + "', '{}'); ";
  }
  std::string insertions(const std::string& prefix, int number) const {
    return "INSERT INTO " + table() + " (event_id, event_type, payload) SELECT '" + prefix +
           "' || i, 'T', '{}' FROM generate_series(1, " + std::to_string(number) + ") AS i; ";
  }

  // The instance dies: nothing of it is stored any more, and its lease ends.
  void kill(std::unique_ptr<Member>& member) {
    member.reset();
    sql().execute("UPDATE " + table() + "_instance SET beat_at = beat_at - interval '1 hour'");
  }
  std::unique_ptr<Member> join() { return std::make_unique<Member>(*store_); }

  Status status(const std::string& id) { return store_->admin().find(id)->row.status; }

  std::shared_ptr<Store> store_;
};

// --- Transactions ---

TEST_F(PostgresPositionTest, ATransactionThatEndsLateIsReadWhenItHasEnded) {
  auto member = join();
  test::Sql late, later;
  late.execute("BEGIN; " + insertion("late"));
  sql().execute(insertion("early"));
  EXPECT_EQ(member->read(), Ids{"early"});
  member->finish({"early"});
  later.execute("BEGIN; SELECT pg_current_xact_id(); " + insertion("later"));
  sql().execute(insertion("after"));
  EXPECT_EQ(member->read(), Ids{"after"});
  member->finish({"after"});
  EXPECT_EQ(status("after"), Status::done);
  late.execute("COMMIT");
  EXPECT_TRUE(store_->has_pending());
  EXPECT_EQ(store_->counts().pending, 1);
  EXPECT_EQ(member->read(), Ids{"late"});
  member->finish({"late"});
  later.execute("COMMIT");
  EXPECT_EQ(status("later"), Status::pending);
  kill(member);
  member = join();
  EXPECT_EQ(member->read(), Ids{"later"}) << "also for the next owner";
  member->finish({"later"});
  EXPECT_FALSE(store_->has_pending());
}

// A snapshot lists only those below the last transaction that has ended.
TEST_F(PostgresPositionTest, ATransactionThatNoSnapshotListsIsReadWhenItHasEnded) {
  auto member = join();
  test::Sql early, late;
  early.execute("BEGIN; SELECT pg_current_xact_id()");
  late.execute("BEGIN; " + insertion("late"));
  early.execute(insertion("early") + "COMMIT");
  EXPECT_EQ(member->read(), Ids{"early"});
  late.execute("COMMIT");
  EXPECT_EQ(member->read(), Ids{"late"});
}

// --- What a look has found beyond the limit ---

TEST_F(PostgresPositionTest, WhatIsBeyondTheLimitComesWithoutAnotherLook) {
  sql().execute(insertion("a") + insertion("b") + insertion("c") + insertion("d"));
  test::Sql late;
  late.execute("BEGIN; " + insertion("late"));
  sql().execute(insertion("e"));
  auto member = join();
  EXPECT_EQ(member->read(2), (Ids{"a", "b"}));
  EXPECT_TRUE(member->more());
  EXPECT_EQ(member->read(1), Ids{"c"});
  late.execute("COMMIT");
  EXPECT_EQ(member->read(2), (Ids{"d", "e"})) << "as they were found";
  EXPECT_EQ(member->read(2), Ids{"late"}) << "by the next look";
  EXPECT_TRUE(member->read(2).empty());
  EXPECT_FALSE(member->more());
}

TEST_F(PostgresPositionTest, TheNextOwnerGetsWhatWasFoundAndNotReturned) {
  sql().execute(insertion("a") + insertion("b") + insertion("c") + insertion("d"));
  auto member = join();
  EXPECT_EQ(member->read(1), Ids{"a"}) << "with what waits: nothing is kept";
  EXPECT_EQ(member->read(1), Ids{"b"});
  EXPECT_EQ(member->read(1), Ids{"c"});
  member->finish({"a", "b"});
  kill(member);
  member = join();
  EXPECT_EQ(member->read(), (Ids{"c", "d"}));
}

TEST_F(PostgresPositionTest, ALostConnectionLosesNothingThatWasFound) {
  sql().execute(insertion("a") + insertion("b") + insertion("c") + insertion("d"));
  auto member = join();
  EXPECT_EQ(member->read(1), Ids{"a"});
  EXPECT_EQ(member->read(1), Ids{"b"});
  member->finish({"a"});
  sql().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%" +
                schema() + "%' AND pid <> pg_backend_pid()");
  std::set<std::string> read;
  EXPECT_TRUE(test::works_again([&] {
    for (const std::string& id : member->read()) read.insert(id);
  }));
  EXPECT_TRUE(read.contains("c") && read.contains("d"));
}

TEST_F(PostgresPositionTest, OfASavepointThatIsRolledBackNothingIsRead) {
  auto member = join();
  test::Sql writer;
  writer.execute("BEGIN; " + insertion("a") + "SAVEPOINT s; " + insertion("b") + "ROLLBACK TO s; " +
                 insertion("c") + "SAVEPOINT t; " + insertion("d") + "RELEASE t");
  sql().execute(insertion("e"));
  EXPECT_EQ(member->read(), Ids{"e"});
  writer.execute("COMMIT");
  EXPECT_EQ(member->read(), (Ids{"a", "c", "d"}));
  member->finish({"a", "c", "d", "e"});
  EXPECT_TRUE(member->read().empty());
}

TEST_F(PostgresPositionTest, ARollBackLeavesNothingToWaitFor) {
  auto member = join();
  test::Sql writer;
  writer.execute("BEGIN; " + insertion("lost"));
  sql().execute(insertion("a"));
  member->read();
  writer.execute("ROLLBACK");
  sql().execute(insertion("b"));
  EXPECT_EQ(member->read(), Ids{"b"});
  member->finish({"a", "b"});
  EXPECT_FALSE(store_->has_pending());
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + "_cursor WHERE open <> '{}'"), "0");
}

TEST_F(PostgresPositionTest, APreparedTransactionIsReadWhenItIsCommitted) {
  if (sql().value("SHOW max_prepared_transactions") == "0") GTEST_SKIP() << "none are allowed";
  auto member = join();
  const std::string name = "'" + schema() + "'";
  test::Sql().execute("BEGIN; " + insertion("prepared") + "PREPARE TRANSACTION " + name);
  sql().execute(insertion("a"));
  EXPECT_EQ(member->read(), Ids{"a"});
  member->finish({"a"});
  EXPECT_TRUE(member->read().empty());
  sql().execute("COMMIT PREPARED " + name);
  EXPECT_EQ(member->read(), Ids{"prepared"});
}

// R4: more than fits into a read, before anything newer, and again from where it was when the owner
// dies.
TEST_F(PostgresPositionTest, ALateTransactionLargerThanAPageComesBeforeAnythingNewer) {
  auto member = join();
  test::Sql late;
  late.execute("BEGIN; " + insertions("late", 1'000));
  sql().execute(insertions("early", 30));
  member->finish(member->read());
  late.execute("COMMIT");
  sql().execute(insertions("new", 30));

  std::map<std::string, int> times;
  for (int round = 0; round < 500 && times.size() < 1'030; ++round) {
    const Ids read = member->read(17);
    for (const std::string& id : read) ++times[id];
    member->update(read);
    if (round % 10 == 9) member->flush();
    if (round == 25) {
      kill(member);
      member = join();
    }
  }
  EXPECT_EQ(times.size(), 1'030u);
  std::size_t repeats = 0;
  for (const auto& [id, count] : times) repeats += static_cast<std::size_t>(count - 1);
  EXPECT_LE(repeats, 17u * 10u) << "no more than was finished since the last flush";
  member->flush();
  EXPECT_FALSE(store_->has_pending());
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + "_cursor WHERE target IS NOT NULL"),
            "0");
}

TEST_F(PostgresPositionTest, LateRowsOfAShardAreReadInTheOrderOfTheirNumbers) {
  auto member = join();
  test::Sql first, second;
  first.execute("BEGIN");
  second.execute("BEGIN");
  Ids expected;
  for (int i = 0; i < 60; ++i) {
    expected.push_back("e" + std::to_string(i));
    (i % 2 == 0 ? first : second).execute(insertion(expected.back()));
  }
  sql().execute(insertion("early"));
  member->finish(member->read());
  first.execute("COMMIT");
  second.execute("COMMIT");
  sql().execute(insertion("new"));
  expected.emplace_back("new");
  Ids all;
  for (int round = 0; round < 100 && all.size() < expected.size(); ++round) {
    const Ids read = member->read(7);
    all.insert(all.end(), read.begin(), read.end());
  }
  EXPECT_EQ(all, expected);
}

// --- Take-over ---

TEST_F(PostgresPositionTest, TheNextOwnerRepeatsOnlyWhatWasNotStored) {
  auto member = join();
  sql().execute(insertions("e", 100));
  const Ids all = member->read();
  ASSERT_EQ(all.size(), 100u);
  const Ids stored(all.begin(), all.begin() + 60);
  const Ids unstored(all.begin() + 60, all.begin() + 80);
  member->finish(stored);
  EXPECT_TRUE(member->update(unstored).stale.empty());
  kill(member);
  member = join();
  ASSERT_EQ(member->lease().inherited.size(), 16u);
  Ids again = member->read();
  std::sort(again.begin(), again.end());
  Ids expected(all.begin() + 60, all.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(again, expected);
}

TEST_F(PostgresPositionTest, WhatIsOpenComesBeforeAnythingNewer) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b") + insertion("c"));
  member->read();
  member->finish({"b"});
  kill(member);
  sql().execute(insertion("d"));
  member = join();
  EXPECT_EQ(member->read(1), Ids{"a"});
  EXPECT_TRUE(member->more());
  EXPECT_EQ(member->read(2), (Ids{"c", "d"}));
}

// Its delivery row was committed, and the position was not stored.
TEST_F(PostgresPositionTest, WhatFailedBeforeItsOwnerDiedWaitsForTheNextOne) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b") + insertion("dead"));
  member->read();
  EXPECT_TRUE(member->update({"a"}, Kind::retry, 7).stale.empty());
  EXPECT_TRUE(member->update({"dead"}, Kind::dead).stale.empty());
  kill(member);
  EXPECT_EQ(status("a"), Status::retry);
  member = join();
  EXPECT_EQ(member->read(), Ids{"b"}) << "not beside its delivery row";
  const auto held = member->instance().held({store_->admin().find("a")->row.ref.shard, 7}, 10);
  EXPECT_EQ(ids(held.rows), Ids{"a"});
  EXPECT_TRUE(store_->admin().discard("dead")) << "the stored position has not passed it yet";
  EXPECT_FALSE(store_->admin().find("dead"));
  EXPECT_EQ(store_->counts().dead, 0);
  member->finish({"b"});
  EXPECT_EQ(store_->counts().pending, 1);
}

TEST_F(PostgresPositionTest, ACandidateKeepsItsPlace) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b") + insertion("c"));
  member->read();
  EXPECT_TRUE(member->update({"b"}, Kind::crashes).stale.empty());
  kill(member);
  member = join();
  EXPECT_EQ(member->read(), (Ids{"a", "b", "c"}));
  member->finish({"a", "b", "c"});
  EXPECT_FALSE(store_->has_pending());
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + table() + "_delivery"), "0");
}

TEST_F(PostgresPositionTest, AFlushAfterATakeOverIsFenced) {
  auto member = join();
  sql().execute(insertion("a"));
  member->read();
  member->update({"a"});
  sql().execute("UPDATE " + table() + "_instance SET beat_at = beat_at - interval '1 hour'");
  const auto heir = join();
  EXPECT_EQ(heir->lease().shards.size(), 16u);
  EXPECT_TRUE(member->flush().fenced);
  EXPECT_EQ(status("a"), Status::pending);
  EXPECT_EQ(heir->read(), Ids{"a"});
  heir->finish({"a"});
  EXPECT_TRUE(member->update({"a"}).fenced);
}

TEST_F(PostgresPositionTest, LeavingStoresWhatWasFinished) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b"));
  member->read();
  member->update({"a"});
  member->instance().leave();
  EXPECT_EQ(status("a"), Status::done);
  EXPECT_EQ(join()->read(), Ids{"b"});
}

TEST_F(PostgresPositionTest, APositionIsNotStoredForEachEvent) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b"));
  member->read();
  member->finish({"a"});
  member->update({"b"});
  const FlushResult soon = member->instance().flush(member->lease().epoch, false);
  ASSERT_TRUE(soon.next_in);
  EXPECT_LE(*soon.next_in, 50ms);
  EXPECT_EQ(status("b"), Status::pending);
  EXPECT_TRUE(eventually([&] {
    member->instance().flush(member->lease().epoch, false);
    return status("b") == Status::done;
  }));
  EXPECT_FALSE(member->instance().flush(member->lease().epoch, false).next_in);
}

// --- Connections ---

TEST_F(PostgresPositionTest, AfterALostConnectionNothingIsLostAndNothingRepeated) {
  auto member = join();
  sql().execute(insertions("e", 50));
  const Ids all = member->read();
  member->finish(Ids(all.begin(), all.begin() + 10));
  member->update(Ids(all.begin() + 10, all.begin() + 30));
  sql().execute(
      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%" +
      schema() + "%' AND pid <> pg_backend_pid()");
  sql().execute(insertions("new", 5));
  member->instance().rewind(0);
  Ids read;
  EXPECT_TRUE(works_again([&] { read = member->read(); }));
  const std::set<std::string> found(read.begin(), read.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(found.contains(all[i]), i >= 30) << "finished are the first 30";
  }
  EXPECT_EQ(found.size(), 25u);
  member->finish(read);
  EXPECT_FALSE(store_->has_pending());
  kill(member);
  EXPECT_TRUE(join()->read().empty());
}

TEST_F(PostgresPositionTest, WhatEndsWhileTheConnectionIsLostIsNotForgotten) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b"));
  member->read();
  sql().execute(
      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%" +
      schema() + "%' AND pid <> pg_backend_pid()");
  EXPECT_TRUE(works_again([&] { EXPECT_TRUE(member->update({"a"}, Kind::retry).stale.empty()); }));
  member->update({"b"});
  EXPECT_TRUE(works_again([&] { EXPECT_TRUE(member->read().empty()); }));
  member->flush();
  EXPECT_EQ(status("a"), Status::retry);
  EXPECT_EQ(status("b"), Status::done);
}

TEST_F(PostgresPositionTest, BehindAPoolerThatChangesTheProcessNothingIsRead) {
  OUTBOX_NEEDS_PGBOUNCER();
  const auto pooled = open_store_at(
      test::pgbouncer_url(), {.progress = Progress::position, .prepare = false, .notify = false});
  Member member(*pooled);
  sql().execute(insertion("a"));
  // While nobody else uses the pool it may be the same process each time.
  try {
    member.read();
  } catch (const RetryableError& error) {
    EXPECT_TRUE(contains(error.what(), "pooler"));
  }
}

// --- What a table is ---

TEST_F(PostgresPositionTest, ATableIsOpenedAsItIs) {
  EXPECT_EQ(open_store()->capabilities().progress, Progress::position);
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { open_store({.progress = Progress::row}); }),
                       "by position"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { open_store({.on_done = OnDone::remove}); }),
                       "purge the events instead"));
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { store_->join({.row_claims = true}); }), "row claims"));
}

TEST_F(PostgresPositionTest, ATableThatWasUsedKeepsItsProgressWhereItIs) {
  const std::string other = schema() + ".other";
  const auto store = postgres::open(test::postgres_url(), {.table = other});
  write_event(*store, simple_event("e"));
  EXPECT_EQ(store->capabilities().progress, Progress::row);
  EXPECT_TRUE(contains(message_of<PermanentError>([&] {
                         postgres::open(test::postgres_url(),
                                        {.table = other, .progress = Progress::position});
                       }),
                       "in its rows"));
  EXPECT_EQ(sql().value("SELECT count(*) FROM pg_attribute WHERE attname = 'xid' AND attrelid = '" +
                        other + "'::regclass"),
            "0");
}

TEST_F(PostgresPositionTest, ProgramsThatKnowOfNoPositionsAreKeptOut) {
  EXPECT_GT(std::stoi(sql().value("SELECT max(version) FROM " + table() + "_migration")), 7)
      << "they say that the schema is newer than they are";
  EXPECT_THROW(sql().execute("INSERT INTO " + table() +
                             "_instance (owner, lease, capacity, exclusive, claims, name, host, "
                             "pid, process) VALUES ('x', '1s', 1, false, false, 'x', 'x', 1, 'x')"),
               std::exception);
  EXPECT_TRUE(schema_status(test::postgres_url(), table()).up_to_date());
}

// --- Operators ---

TEST_F(PostgresPositionTest, APurgeTakesOnlyWhatThePositionHasPassed) {
  auto member = join();
  sql().execute(insertion("a") + insertion("b") + insertion("c"));
  member->read();
  member->update({"a", "b"});
  sql().execute("UPDATE " + table() +
                " SET created_at = now() - interval '1 day', available_at = created_at");
  const Time now = host_clock().now();
  EXPECT_EQ(store_->admin().purge(Purgeable::done, now, 0, 10, false).rows, 0) << "not stored yet";
  member->flush();
  EXPECT_EQ(store_->admin().count_purgeable(Purgeable::done, now), 2);
  EXPECT_EQ(store_->admin().purge(Purgeable::done, now, 0, 10, true).rows, 2);
  EXPECT_TRUE(store_->admin().find("c"));
  member->finish({"c"});
}

TEST_F(PostgresPositionTest, AReplayedEventIsDeliveredFromItsDeliveryRow) {
  auto member = join();
  sql().execute(insertion("a"));
  member->read();
  member->finish({"a"});
  ASSERT_TRUE(store_->admin().replay("a"));
  EXPECT_EQ(status("a"), Status::pending);
  sql().execute("DELETE FROM " + table());  // as a purge may
  const DueRows due = member->instance().due(member->lease().shards, 10);
  ASSERT_EQ(ids(due.rows), Ids{"a"});
  const StatusUpdate done{.row = due.rows[0].ref, .event_id = "a"};
  EXPECT_TRUE(member->instance().apply(member->lease().epoch, {&done, 1}).stale.empty());
  EXPECT_FALSE(store_->has_pending());
}

}  // namespace
}  // namespace outbox::postgres
