// IdempotentCreate::join(): in the caller's transaction.
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <string>

#include "creations.h"
#include "outbox/error.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::eventually;
using test::message_of;

class CreateJoinTest : public CreationTest {
 protected:
  void SetUp() override {
    CreationTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    create_ = std::make_unique<IdempotentCreate>(*writer_, quiet());
  }
  void TearDown() override { create_.reset(); }

  Creation<> join_and_commit(const std::string& key, const Work& work) {
    auto tx = writer_->begin();
    Creation creation = create_->join(tx, request(key), work);
    tx.commit();
    return creation;
  }

  static std::string fail(Transaction& tx, const NewIds& ids) {
    make(tx, ids);
    throw std::runtime_error("no paper");
  }

  std::unique_ptr<IdempotentCreate> create_;
};

OUTBOX_ON_EVERY_DATABASE(CreateJoinTest);

TEST_P(CreateJoinTest, TheCallersCommitMakesItAndTheSameRequestAgainGetsItsResult) {
  const Creation made = join_and_commit("k", make);
  EXPECT_TRUE(made.created());
  expect_one(made);
  EXPECT_EQ(record("k"), "1 1 " + *made.result + " -");
  const Creation again = join_and_commit("k", never);
  EXPECT_TRUE(again.repeated());
  EXPECT_EQ(again.result, made.result);
  EXPECT_TRUE(create_->run(request("k"), never).repeated());
}

TEST_P(CreateJoinTest, WhatRunHasMadeJoinRepeats) {
  const Creation made = create_->run(request("k"), make);
  EXPECT_EQ(join_and_commit("k", never).result, made.result);
  expect_one(made);
}

TEST_P(CreateJoinTest, TheCallersRollbackTakesTheRecordAlong) {
  {
    auto tx = writer_->begin();
    EXPECT_TRUE(create_->join(tx, request("k"), make).created());
    tx.rollback();
  }
  EXPECT_EQ(things(), 0);
  EXPECT_EQ(records(), 0);
  expect_one(join_and_commit("k", make));
}

TEST_P(CreateJoinTest, TwiceInOneTransactionIsOnce) {
  auto tx = writer_->begin();
  const Creation made = create_->join(tx, request("k"), make);
  const Creation again = create_->join(tx, request("k"), never);
  EXPECT_TRUE(again.repeated());
  EXPECT_EQ(again.result, made.result);
  EXPECT_TRUE(create_->join(tx, request("another"), make).created());
  tx.commit();
  EXPECT_EQ(things(), 2);
}

TEST_P(CreateJoinTest, AFailureEndsTheTransactionIsRecordedAndMayBeRetriedWithTheSameIds) {
  NewIds first;
  auto tx = writer_->begin();
  tx.write({.type = "Before", .payload = json("1")});
  const auto note_and_fail = [&](Transaction& in, const NewIds& ids) {
    first = ids;
    return fail(in, ids);
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] { create_->join(tx, request("k"), note_and_fail); }),
            "no paper");
  EXPECT_THROW(tx.commit(), MisuseError) << "it is over";
  EXPECT_FALSE(writer_->in_transaction());
  EXPECT_EQ(things(), 0);
  EXPECT_EQ(events(), 0);
  EXPECT_EQ(record("k"), "2 1 - no paper");

  EXPECT_THROW(join_and_commit("k", fail), std::runtime_error);
  EXPECT_EQ(record("k"), "2 2 - no paper");
  const Creation made = join_and_commit("k", make);
  EXPECT_EQ(made.ids.internal_id, first.internal_id);
  EXPECT_EQ(made.ids.public_id, first.public_id);
  expect_one(made);
  EXPECT_EQ(record("k"), "1 3 " + *made.result + " no paper");
}

TEST_P(CreateJoinTest, AWorkThatEndsTheTransactionIsReportedByItsOwnError) {
  auto tx = writer_->begin();
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              create_->join(tx, request("k"), [](Transaction& in, const NewIds&) -> std::string {
                in.rollback();
                throw std::runtime_error("no paper");
              });
            }),
            "no paper");
  EXPECT_EQ(record("k"), "2 1 - no paper");
}

TEST_P(CreateJoinTest, AKeyUsedBeforeIsAnErrorThatLeavesTheTransactionUsable) {
  create_->run(request("k", "one"), make);
  auto tx = writer_->begin();
  EXPECT_THROW(create_->join(tx, request("k", "another"), never), KeyReusedError);
  EXPECT_THROW(create_->join(tx, {.key = ""}, never), MisuseError);
  EXPECT_TRUE(create_->join(tx, request("another"), make).created());
  tx.commit();
  EXPECT_EQ(things(), 2);
}

TEST_P(CreateJoinTest, ATransactionOfAnotherDatabaseIsRefusedAndUntouched) {
  const auto elsewhere = chaos::kSqlite.make();
  Writer stranger{elsewhere->open()};
  auto tx = stranger.begin();
  const std::string message =
      message_of<MisuseError>([&] { create_->join(tx, request("k"), never); });
  EXPECT_TRUE(contains(message, "a transaction of another writer"));
  EXPECT_TRUE(contains(message, stranger.store().description()));
  EXPECT_TRUE(contains(message, store()->description()));
  tx.commit();
  EXPECT_EQ(records(), 0);

  // Another writer of the same store is as good.
  Writer brother{store()};
  auto own = brother.begin();
  EXPECT_TRUE(create_->join(own, request("k"), make).created());
  own.commit();
  EXPECT_EQ(things(), 1);
}

TEST_P(CreateJoinTest, AThreadThatWouldWaitForItselfIsTold) {
  if (dialect() == Dialect::sqlite) GTEST_SKIP() << "one transaction writes at a time";
  const auto refusal = [&](const auto& call) {
    const std::string message = message_of<MisuseError>(call);
    EXPECT_TRUE(contains(message, "\"k\"")) << message;
    EXPECT_TRUE(contains(message, "would wait for it for ever")) << message;
  };
  const auto run = [&] { create_->run(request("k"), never); };
  for (const bool failed_before : {false, true}) {
    SCOPED_TRACE(failed_before);
    if (failed_before) {
      EXPECT_THROW(join_and_commit("k", fail), std::runtime_error);
    }
    auto tx = writer_->begin();
    {
      auto savepoint = tx.savepoint();
      create_->join(tx, request("k"), [&](Transaction& in, const NewIds& ids) {
        refusal(run);
        return make(in, ids);
      });
      refusal(run);
      EXPECT_TRUE(create_->join(tx, request("k"), never).repeated());
      auto inner = writer_->begin_new();
      refusal([&] { create_->join(inner, request("k"), never); });
      inner.rollback();
      EXPECT_TRUE(create_->run(request(failed_before ? "b" : "a"), make).created());
    }
    // The savepoint was rolled back, and the request is free.
    if (!failed_before) {
      EXPECT_TRUE(create_->run(request("k"), make).created());
      execute("DELETE FROM " + table() + " WHERE request_key = 'k'");
    }
    tx.rollback();
  }
  auto tx = writer_->begin();
  EXPECT_TRUE(create_->join(tx, request("k"), make).created());
  tx.commit();
  auto next = writer_->begin();
  EXPECT_TRUE(create_->run(request("k"), never).repeated()) << "it has ended";
}

TEST_P(CreateJoinTest, ALiveClaimIsInProgressAndADeadOneIsTakenOver) {
  leave_claim("k");
  const Creation told = join_and_commit("k", never);
  EXPECT_TRUE(told.in_progress());
  EXPECT_GT(told.retry_after, 0ms);
  end_leases();
  const Creation made = join_and_commit("k", make);
  EXPECT_TRUE(made.created());
  expect_one(made);
  EXPECT_EQ(record("k"), "1 2 " + *made.result + " -");
}

TEST_P(CreateJoinTest, ATakeoverThatIsRolledBackLeavesTheClaimAsItWas) {
  leave_claim("k");
  end_leases();
  {
    auto tx = writer_->begin();
    EXPECT_TRUE(create_->join(tx, request("k"), make).created());
    tx.rollback();
  }
  EXPECT_EQ(record("k"), "0 1 - -");
  EXPECT_THROW(join_and_commit("k", fail), std::runtime_error);
  EXPECT_EQ(record("k"), "2 2 - no paper");
  expect_one(create_->run(request("k"), make));
}

TEST_P(CreateJoinTest, ASecondCallWaitsUntilTheFirstTransactionHasEnded) {
  for (const bool commit : {true, false}) {
    const std::string key = commit ? "committed" : "rolled back";
    auto tx = std::make_unique<Transaction>(writer_->begin());
    const Creation first = create_->join(*tx, request(key), make);
    auto second = std::async(std::launch::async, [&] { return join_and_commit(key, make); });
    auto third = std::async(std::launch::async, [&] {
      // On MySQL it may be chosen to end a deadlock of two that wait for a rollback.
      for (;;) {
        try {
          return create_->run(request(key), make);
        } catch (const RetryableError&) {
        }
      }
    });
    EXPECT_TRUE(wait_for_waiters());
    EXPECT_EQ(second.wait_for(50ms), std::future_status::timeout);
    if (commit) {
      tx->commit();
    } else {
      tx->rollback();
    }
    tx.reset();
    std::string result;
    try {
      result = second.get().result.value_or("");
    } catch (const RetryableError&) {
      EXPECT_FALSE(commit);
    }
    Creation other = third.get();
    while (other.in_progress()) other = create_->run(request(key), make);
    EXPECT_TRUE(result.empty() || other.result == result) << result;
    EXPECT_EQ(other.result == first.result, commit);
    EXPECT_EQ(things(), commit ? 1 : 2) << key;
  }
}

// The claim of a run() is committed while this transaction has a snapshot from before.
TEST_P(CreateJoinTest, AnOldSnapshotNeverLeadsToASecondCreation) {
  if (dialect() == Dialect::sqlite) return;  // nothing changes beside a transaction that writes
  auto tx = std::make_unique<Transaction>(writer_->begin());
  if (dialect() == Dialect::postgres) {
    tx->execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
  }
  EXPECT_EQ(tx->query("SELECT 1 FROM thing").size(), 0u);
  const Creation made =
      std::async(std::launch::async, [&] { return create_->run(request("k"), make); }).get();
  if (dialect() == Dialect::postgres) {
    EXPECT_THROW(create_->join(*tx, request("k"), never), RetryableError);
  } else {
    EXPECT_EQ(create_->join(*tx, request("k"), never).result, made.result);
    tx->commit();
  }
  tx.reset();
  expect_one(made);
}

}  // namespace
}  // namespace outbox::patterns
