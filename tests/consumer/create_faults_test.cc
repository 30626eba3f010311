// Idempotent creation by calls that die, sleep too long, or lose their connection.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include "creations.h"
#include "outbox/error.h"
#include "support/faulty_store.h"
#include "support/stores.h"
#include "support/temporary_directory.h"

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::eventually;
using test::message_of;

// A place in run() where something goes wrong: before or after the nth such call on a
// connection, counted from 1.
struct Gap {
  const char* name;
  bool before;
  std::string_view call;
  std::size_t n;
};

// The statements of run(): the claim's INSERT, BEGIN, the work's INSERT and its event, the
// record of success, COMMIT.
constexpr Gap kGaps[] = {
    {"before the claim", true, "execute", 1},   {"after the claim", false, "execute", 1},
    {"after the beginning", false, "begin", 1}, {"in the work", false, "execute", 2},
    {"after the work", false, "insert", 1},     {"before the record", true, "execute", 3},
    {"before the commit", true, "commit", 1},   {"after the commit", false, "commit", 1},
};

class CreateFaultsTest : public CreationTest {
 protected:
  // A store that does so at the gap.
  static std::shared_ptr<Store> with_gap(std::shared_ptr<Store> store, const Gap& gap,
                                         const std::function<void()>& act) {
    auto faults = std::make_shared<testing::Faults>();
    const auto hook = [=, raw = faults.get()](std::string_view call) {
      if (call == gap.call && raw->calls(call) == gap.n) act();
    };
    if (gap.before) {
      faults->before(hook);
    } else {
      faults->after(hook);
    }
    return testing::faulty(std::move(store), faults);
  }

  void say(const std::string& what) { std::ofstream(directory_.file(what)) << what; }
  bool said(const std::string& what) const {
    return std::filesystem::exists(directory_.file(what));
  }

  // Loses the connections of the store's pool, as a restart of the server would.
  void cut_connections() {
    const auto killer = database().connect(*store());
    Connection& on = killer->connection();
    if (dialect() == Dialect::postgres) {
      // Other tests use the same database: those of this pool are asked who they are.
      std::vector<std::unique_ptr<Connection>> pool(4);
      std::string pids;
      for (auto& each : pool) {
        each = store()->connect();
        const auto pid =
            each->query("SELECT pg_backend_pid()::bigint", {}).at(0).get<std::int64_t>(0);
        pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
      }
      pool.clear();
      // Until they are gone: else the next cut may be given one of them.
      on.query("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid IN (" +
                   pids + ")",
               {});
      return;
    }
    for (const ResultRow& row : on.query("SELECT id FROM information_schema.processlist"
                                         " WHERE id <> connection_id() AND db = database()",
                                         {})) {
      try {
        on.execute("KILL " + std::to_string(row.get<std::int64_t>(0)), {});
      } catch (const Error& error) {
        // One that has just ended by itself.
        EXPECT_TRUE(contains(error.what(), "Unknown thread id"));
      }
    }
  }

  test::TemporaryDirectory directory_;
};

OUTBOX_ON_EVERY_DATABASE(CreateFaultsTest);

TEST_P(CreateFaultsTest, WhoIsKilledInAnyGapLeavesExactlyOneCreationToTheNext) {
  for (const Gap& gap : kGaps) {
    SCOPED_TRACE(gap.name);
    execute("DELETE FROM thing");
    execute("DELETE FROM outbox_event");
    execute("DELETE FROM " + table());
    close_all();
    {
      harness::Process first([&] {
        Writer writer{with_gap(database().open(), gap, [] { ::raise(SIGKILL); })};
        IdempotentCreate create{writer, quiet()};
        create.run(request("k"), make);
        return 0;
      });
      EXPECT_EQ(first.wait(60s), harness::kKilled);
    }
    open_all();
    const bool claimed = gap.name != kGaps[0].name;
    const bool committed = gap.name == std::string_view("after the commit");
    EXPECT_EQ(things(), committed ? 1 : 0);
    EXPECT_EQ(record("k").substr(0, 3), claimed ? (committed ? "1 1" : "0 1") : "0 r");
    IdempotentCreate create{*writer_, quiet()};
    if (claimed && !committed) {
      EXPECT_TRUE(create.run(request("k"), never).in_progress()) << "the lease lives on";
      end_leases();
    }
    const Creation made = create.run(request("k"), make);
    EXPECT_EQ(made.created(), !committed);
    EXPECT_EQ(create.run(request("k"), never).result, made.result);
    expect_one(made);
  }
}

// The statements of join() come in the same order, all in the caller's transaction: a claim
// that was not committed is gone, and nobody waits for a lease.
TEST_P(CreateFaultsTest, WhoIsKilledInAnyGapOfAJoinLeavesExactlyOneCreationToTheNext) {
  for (const Gap& gap : kGaps) {
    SCOPED_TRACE(gap.name);
    execute("DELETE FROM thing");
    execute("DELETE FROM outbox_event");
    execute("DELETE FROM " + table());
    close_all();
    const auto join = [this](Writer& writer, const Work& work) {
      IdempotentCreate create{writer, quiet()};
      Transaction tx = writer.begin();
      Creation made = create.join(tx, request("k"), work);
      tx.commit();
      return made;
    };
    {
      harness::Process first([&] {
        Writer writer{with_gap(database().open(), gap, [] { ::raise(SIGKILL); })};
        join(writer, make);
        return 0;
      });
      EXPECT_EQ(first.wait(60s), harness::kKilled);
    }
    open_all();
    const bool committed = gap.name == std::string_view("after the commit");
    const Creation made = join(*writer_, make);
    EXPECT_EQ(made.created(), !committed);
    EXPECT_EQ(join(*writer_, never).result, made.result);
    expect_one(made);
  }
}

// In its work, while others can write; on SQLite before it begins, because nobody can take
// over from one that has the one right to write.
TEST_P(CreateFaultsTest, WhoIsStoppedPastItsLeaseAndRevivedIsRolledBack) {
  const Gap gap =
      dialect() == Dialect::sqlite ? Gap{"", true, "begin", 1} : Gap{"", false, "insert", 1};
  close_all();
  harness::Process first([&] {
    Writer writer{with_gap(database().open(), gap, [&] {
      say("inside");
      while (!said("taken over")) std::this_thread::sleep_for(5ms);
    })};
    IdempotentCreate create{writer, quiet()};
    try {
      create.run(request("k"), make);
    } catch (const RetryableError& error) {
      say(contains(error.what(), "taken over by another call") ? "rolled back" : "another error");
    }
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return said("inside"); }));
  first.signal(SIGSTOP);
  open_all();
  IdempotentCreate create{*writer_, quiet()};
  EXPECT_TRUE(create.run(request("k"), never).in_progress());
  end_leases();
  const Creation made = create.run(request("k"), make);
  EXPECT_TRUE(made.created());
  say("taken over");
  first.signal(SIGCONT);
  EXPECT_EQ(first.wait(60s), harness::ExitStatus{});
  EXPECT_TRUE(said("rolled back"));
  expect_one(made);
  EXPECT_EQ(record("k"), "1 2 " + *made.result + " -");
}

TEST_P(CreateFaultsTest, WhoWakesUpWhileTheOtherWorksLeavesItToThat) {
  if (dialect() == Dialect::sqlite) return;  // it would wait until the other has ended
  IdempotentCreate create{*writer_, quiet()};
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    const std::string key = fails ? "fails" : "succeeds";
    StoppedCall first(create, request(key), [&](Transaction& tx, const NewIds& ids) -> std::string {
      if (fails) throw RetryableError("no paper");
      return make(tx, ids);
    });
    end_leases();
    const Creation made = create.run(request(key), [&](Transaction& tx, const NewIds& ids) {
      first.go_on();
      EXPECT_THROW(first.result(), RetryableError);
      return make(tx, ids);
    });
    EXPECT_TRUE(made.created());
    EXPECT_EQ(record(key), "1 2 " + *made.result + " -");
  }
  EXPECT_EQ(things(), 2);
  EXPECT_EQ(events(), 2);
}

// Its own lease being over is no reason to give up what is done.
TEST_P(CreateFaultsTest, WhoIsLateButNotTakenOverSucceeds) {
  if (dialect() == Dialect::sqlite) return;  // nobody can shift the row beside it
  IdempotentCreate create{*writer_, quiet()};
  const Creation made = create.run(request("k"), [&](Transaction& tx, const NewIds& ids) {
    end_leases();
    return make(tx, ids);
  });
  EXPECT_TRUE(made.created());
  expect_one(made);
}

TEST_P(CreateFaultsTest, ATakeoverByJoinRollsTheSleeperBackOnceItIsCommitted) {
  if (dialect() == Dialect::sqlite) return;  // nobody can take over beside a transaction
  for (const bool commit : {true, false}) {
    SCOPED_TRACE(commit);
    execute("DELETE FROM thing");
    execute("DELETE FROM outbox_event");
    execute("DELETE FROM " + table());
    IdempotentCreate create{*writer_, quiet()};
    StoppedCall first(create, request("k"), make);
    end_leases();
    auto tx = writer_->begin();
    const Creation taken = create.join(tx, request("k"), make);
    EXPECT_TRUE(taken.created());
    first.go_on();
    EXPECT_TRUE(wait_for_waiters());
    if (commit) {
      tx.commit();
      EXPECT_THROW(first.result(), RetryableError);
    } else {
      tx.rollback();
      EXPECT_TRUE(first.result().created());
    }
    expect_one(taken);
  }
}

TEST_P(CreateFaultsTest, ACommitWhoseOutcomeIsUnknownIsFoundOutByTheNextCall) {
  for (const bool happened : {true, false}) {
    const std::string key = happened ? "happened" : "lost";
    Writer writer{with_gap(store(), {"", !happened, "commit", 1},
                           [] { throw OutcomeUnknownError("no answer"); }),
                  {.log = log_.log()}};
    IdempotentCreate unlucky{writer, quiet()};
    EXPECT_THROW(unlucky.run(request(key), make), OutcomeUnknownError);
    IdempotentCreate create{*writer_, quiet()};
    if (happened) {
      EXPECT_TRUE(create.run(request(key), never).repeated());
      EXPECT_EQ(things(), 1);
      continue;
    }
    EXPECT_EQ(record(key), "0 1 - -") << "no failure: it might have happened";
    EXPECT_TRUE(create.run(request(key), never).in_progress());
    end_leases();
    EXPECT_TRUE(create.run(request(key), make).created());
    EXPECT_EQ(things(), 2);
  }
}

TEST_P(CreateFaultsTest, ACommitThatFailsIsAFailure) {
  Writer writer{
      with_gap(store(), {"", true, "commit", 1}, [] { throw RetryableError("deadlock"); }),
      {.log = log_.log()}};
  IdempotentCreate create{writer, quiet()};
  EXPECT_THROW(create.run(request("k"), make), RetryableError);
  EXPECT_EQ(record("k"), "2 1 - deadlock");
  expect_one(create.run(request("k"), make));
}

TEST_P(CreateFaultsTest, AClaimWhoseAnswerWasLostIsStillThisCalls) {
  Writer writer{
      with_gap(store(), {"", false, "execute", 1}, [] { throw RetryableError("no answer"); }),
      {.log = log_.log()}};
  IdempotentCreate create{writer, quiet()};
  const Creation made = create.run(request("k"), make);
  EXPECT_TRUE(made.created());
  expect_one(made);
  EXPECT_EQ(record("k").substr(0, 3), "1 1");
}

TEST_P(CreateFaultsTest, AFailureThatCannotBeRecordedIsLoggedAndTheFirstErrorGoesOn) {
  auto faults = std::make_shared<testing::Faults>();
  Writer writer{testing::faulty(store(), faults), {.log = log_.log()}};
  IdempotentCreate create{writer, quiet()};
  const auto fail = [&](Transaction&, const NewIds&) -> std::string {
    faults->before(testing::failing({"connect"}));
    throw std::runtime_error("no paper");
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] { create.run(request("k"), fail); }), "no paper");
  EXPECT_TRUE(log_.contains("could not be recorded"));
  faults->clear();
  EXPECT_TRUE(create.run(request("k"), never).in_progress());
  end_leases();
  auto tx = writer.begin();
  EXPECT_EQ(message_of<std::runtime_error>([&] { create.join(tx, request("k"), fail); }),
            "no paper");
  faults->clear();
  expect_one(create.run(request("k"), make));
}

TEST_P(CreateFaultsTest, ConnectionsThatWereLostWhileIdleAreNoticedByNobody) {
  if (dialect() == Dialect::sqlite) GTEST_SKIP() << "there are none";
  IdempotentCreate create{*writer_, quiet()};
  create.run(request("first"), make);
  for (int n = 0; n < 5; ++n) {
    cut_connections();
    const std::string key = "k" + std::to_string(n);
    EXPECT_TRUE(create.run(request(key), make).created());
    cut_connections();
    EXPECT_TRUE(create.run(request(key), never).repeated());
  }
}

}  // namespace
}  // namespace outbox::patterns
