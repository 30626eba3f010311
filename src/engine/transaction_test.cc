// Rules of writing and of transactions, on the store in memory.
#include <gtest/gtest.h>

#include <thread>

#include "engine/test_fixture.h"
#include "outbox/error.h"
#include "outbox/writer.h"

namespace outbox::testing {
namespace {

using Texts = std::vector<std::string>;

// Notes what it is told of, and does what a test wants.
class NotingHook final : public WriterHook {
 public:
  std::function<void(std::vector<Draft>&)> on_before;
  bool fails_after = false;
  Texts told;

  void before_write(std::vector<Draft>& drafts) override {
    if (on_before) on_before(drafts);
  }
  void after_write(std::span<const Written> events) override { note("write", events); }
  void after_commit(std::span<const Written> events) override { note("commit", events); }
  void after_rollback(std::span<const Written> events) override { note("rollback", events); }
  void outcome_unknown(std::span<const Written> events) override { note("unknown", events); }

 private:
  void note(const std::string& what, std::span<const Written> events) {
    std::string line = what;
    for (const Written& written : events) line += " " + written.event.payload();
    told.push_back(line);
    if (fails_after) throw std::runtime_error("hook " + what);
  }
};

class WriterTest : public ::testing::Test {
 protected:
  Draft draft(const std::string& payload) { return order_event("1", payload); }
  std::int64_t rows() { return store->counts().pending; }

  RecordingLog log;
  std::shared_ptr<NotingHook> hook = std::make_shared<NotingHook>();
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::shared_ptr<Store> store = faulty(memory::open(), faults);
  Writer writer{store, {.hooks = {hook}, .log = log.log()}};
};

TEST_F(WriterTest, WritingOutsideATransactionIsRefusedAlsoForAnEmptyList) {
  EXPECT_THROW(writer.write(draft("1")), MisuseError);
  EXPECT_THROW(writer.write("Type", "{}"), MisuseError);
  EXPECT_THROW(writer.write_all({}), MisuseError);
  EXPECT_TRUE(hook->told.empty());
  EXPECT_EQ(rows(), 0);
}

TEST_F(WriterTest, WritesDeepBelowBeginAndReturnsTheIdsInOrder) {
  auto tx = writer.begin();
  EXPECT_TRUE(writer.in_transaction());
  const std::string first = writer.write(draft("1"));
  const auto others = writer.write_all({draft("2"), draft("3")});
  tx.commit();
  EXPECT_FALSE(writer.in_transaction());
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(store->admin().find(first)->row.event.payload(), "1");
  EXPECT_EQ(store->admin().find(others[0])->row.event.payload(), "2");
  EXPECT_EQ(store->admin().find(others[1])->row.event.payload(), "3");
  EXPECT_EQ(hook->told, (Texts{"write 1", "write 2 3", "commit 1 2 3"}));
}

TEST_F(WriterTest, ManyEventsAreInsertedByOneCall) {
  auto tx = writer.begin();
  writer.write_all(std::vector<Draft>(500, draft("1")));
  tx.commit();
  EXPECT_EQ(faults->calls("insert"), 1u);
  EXPECT_EQ(rows(), 500);
}

TEST_F(WriterTest, OneBadDraftMeansThatNothingIsWritten) {
  auto tx = writer.begin();
  EXPECT_THROW(writer.write_all({draft("1"), draft("not json")}), MisuseError);
  tx.commit();
  EXPECT_EQ(rows(), 0);
  EXPECT_TRUE(hook->told.empty());
}

TEST_F(WriterTest, AHookMayChangeAddAndSuppressEvents) {
  hook->on_before = [&](std::vector<Draft>& drafts) {
    drafts[0].payload = json("\"changed\"");
    drafts.push_back(draft("\"added\""));
  };
  {
    auto tx = writer.begin();
    EXPECT_EQ(tx.write_all({draft("1")}).size(), 2u);
    tx.commit();
  }
  EXPECT_EQ(hook->told.back(), "commit \"changed\" \"added\"");
  hook->told.clear();
  hook->on_before = [](std::vector<Draft>& drafts) { drafts.clear(); };
  auto tx = writer.begin();
  EXPECT_EQ(tx.write(draft("1")), "");
  tx.commit();
  EXPECT_EQ(rows(), 2);
  EXPECT_TRUE(hook->told.empty()) << "no event, no callbacks";
}

TEST_F(WriterTest, AHookThatThrowsBeforeTheWriteAbortsIt) {
  hook->on_before = [](std::vector<Draft>&) { throw std::runtime_error("not allowed"); };
  auto tx = writer.begin();
  EXPECT_THROW(tx.write(draft("1")), std::runtime_error);
  tx.commit();
  EXPECT_EQ(rows(), 0);
  EXPECT_TRUE(hook->told.empty());
}

TEST_F(WriterTest, WhatHooksThrowAfterwardsIsLoggedAndGoesNoFurther) {
  hook->fails_after = true;
  auto tx = writer.begin();
  EXPECT_NO_THROW(tx.write(draft("1")));
  EXPECT_NO_THROW(tx.commit());
  auto undone = writer.begin();
  undone.write(draft("2"));
  EXPECT_NO_THROW(undone.rollback());
  for (const char* what : {"hook write", "hook commit", "hook rollback"}) {
    EXPECT_TRUE(log.contains(what)) << what;
  }
  EXPECT_EQ(rows(), 1);
}

TEST_F(WriterTest, ATransactionThatGoesOutOfScopeIsRolledBack) {
  {
    auto tx = writer.begin();
    tx.write(draft("1"));
  }
  EXPECT_EQ(rows(), 0);
  EXPECT_EQ(hook->told, (Texts{"write 1", "rollback 1"}));
  EXPECT_FALSE(writer.in_transaction());
}

TEST_F(WriterTest, ATransactionSaysWhetherItIsOpen) {
  for (const bool commits : {true, false}) {
    auto tx = writer.begin();
    EXPECT_TRUE(tx.open());
    if (commits) {
      tx.commit();
    } else {
      tx.rollback();
    }
    EXPECT_FALSE(tx.open());
    EXPECT_EQ(&tx.store(), &writer.store());
    EXPECT_THROW(tx.connection(), MisuseError);
  }
}

TEST_F(WriterTest, ASavepointRolledBackTakesItsEventsAndCallbacksWithIt) {
  Texts ran;
  auto tx = writer.begin();
  tx.write(draft("1"));
  {
    auto undone = tx.savepoint();
    tx.write(draft("2"));
    tx.after_commit([&] { ran.push_back("undone"); });
    tx.after_rollback([&] { ran.push_back("rolled back"); });
    auto inner = tx.savepoint();
    tx.write(draft("3"));
    inner.release();
    undone.rollback();
  }
  EXPECT_EQ(ran, Texts{"rolled back"});
  {
    auto kept = tx.savepoint();
    tx.write(draft("4"));
    kept.release();
  }
  {
    auto forgotten = tx.savepoint();
    tx.write(draft("5"));
  }
  tx.commit();
  EXPECT_EQ(rows(), 2);
  EXPECT_EQ(ran, Texts{"rolled back"});
  EXPECT_EQ(hook->told, (Texts{"write 1", "write 2", "write 3", "rollback 2 3", "write 4",
                               "write 5", "rollback 5", "commit 1 4"}));
}

TEST_F(WriterTest, ACommitWhoseOutcomeIsUnknownIsNeitherACommitNorARollback) {
  faults->after([](std::string_view call) {
    if (call == "commit") throw OutcomeUnknownError("the answer was lost");
  });
  int callbacks = 0;
  auto tx = writer.begin();
  tx.write(draft("1"));
  tx.after_commit([&] { ++callbacks; });
  tx.after_rollback([&] { ++callbacks; });
  EXPECT_THROW(tx.commit(), OutcomeUnknownError);
  EXPECT_EQ(hook->told, (Texts{"write 1", "unknown 1"}));
  EXPECT_EQ(callbacks, 0);
  EXPECT_FALSE(writer.in_transaction());
}

TEST_F(WriterTest, ACommitThatFailsIsARollback) {
  faults->before([](std::string_view call) {
    if (call == "commit") throw RetryableError("deadlock");
  });
  Texts ran;
  auto tx = writer.begin();
  tx.write(draft("1"));
  tx.after_commit([&] { ran.push_back("commit"); });
  tx.after_rollback([&] { ran.push_back("rollback"); });
  EXPECT_THROW(tx.commit(), RetryableError);
  EXPECT_EQ(ran, Texts{"rollback"});
  EXPECT_EQ(hook->told, (Texts{"write 1", "rollback 1"}));
}

TEST_F(WriterTest, AfterCommitCallbacksRunOnceInOrderAndAllEvenIfOneThrows) {
  Texts ran;
  {
    auto tx = writer.begin();
    tx.after_commit([&] { ran.push_back("1"); });
    tx.after_commit([&]() {
      ran.push_back("2");
      throw 42;
    });
    tx.after_commit([&] {
      ran.push_back("3");
      auto another = writer.begin();  // the first one is over
      another.write(draft("1"));
      another.commit();
    });
    tx.after_rollback([&] { ran.push_back("rollback"); });
    EXPECT_TRUE(ran.empty());
    tx.commit();
  }
  EXPECT_EQ(ran, (Texts{"1", "2", "3"}));
  EXPECT_TRUE(log.contains("an after-commit callback failed"));
  EXPECT_EQ(rows(), 1);
}

TEST_F(WriterTest, ANestedBeginIsRefusedAndTheOuterOneGoesOn) {
  auto tx = writer.begin();
  EXPECT_THROW(static_cast<void>(writer.begin()), MisuseError);
  tx.write(draft("1"));
  tx.commit();
  EXPECT_THROW(tx.write(draft("2")), MisuseError) << "it is over";
  EXPECT_THROW(tx.commit(), MisuseError);
  EXPECT_EQ(rows(), 1);
}

TEST_F(WriterTest, ANewTransactionBesideAnOpenOneIsRefusedAtOnceWhereItWouldWaitForIt) {
  writer.begin_new().commit();
  auto tx = writer.begin_new();
  EXPECT_THROW(static_cast<void>(writer.begin()), MisuseError);
  EXPECT_THROW(static_cast<void>(writer.begin_new()), MisuseError);
  EXPECT_EQ(faults->calls("begin"), 2u) << "nothing was tried";
  writer.write(draft("1"));
  tx.commit();
  EXPECT_EQ(rows(), 1);
}

TEST_F(WriterTest, OnlyTheThreadThatBeganATransactionWritesInItWithoutNamingIt) {
  auto tx = writer.begin();
  std::jthread([&] {
    EXPECT_FALSE(writer.in_transaction());
    EXPECT_THROW(writer.write(draft("1")), MisuseError);
  }).join();
  writer.write(draft("1"));
  tx.commit();
  EXPECT_EQ(rows(), 1);
}

TEST_F(WriterTest, ATransactionMayBeUsedAndCommittedByAnotherThread) {
  auto tx = writer.begin();
  tx.write(draft("1"));
  std::thread::id committed_on;
  tx.after_commit([&] { committed_on = std::this_thread::get_id(); });
  std::thread::id other;
  std::jthread([&] {
    other = std::this_thread::get_id();
    tx.write(draft("2"));
    auto undone = tx.savepoint();
    tx.write(draft("3"));
    undone.rollback();
    auto kept = tx.savepoint();
    tx.write(draft("4"));
    kept.release();
    tx.commit();
    EXPECT_FALSE(tx.open());
  }).join();
  EXPECT_EQ(committed_on, other);
  EXPECT_FALSE(writer.in_transaction()) << "the thread that began it may begin the next one";
  writer.begin().commit();
  EXPECT_EQ(rows(), 3);
}

TEST_F(WriterTest, ASavepointTravelsWithItsTransaction) {
  auto tx = writer.begin();
  auto part = tx.savepoint();
  tx.write(draft("1"));
  std::jthread([&, part = std::move(part)]() mutable { part.rollback(); }).join();
  tx.write(draft("2"));
  tx.commit();
  EXPECT_EQ(rows(), 1);
}

TEST_F(WriterTest, ADetachedTransactionLeavesItsThreadFreeForTheNextOne) {
  auto tx = writer.begin();
  tx.write(draft("1"));
  EXPECT_THROW(static_cast<void>(writer.begin()), MisuseError);
  tx.detach();
  tx.detach();
  EXPECT_FALSE(writer.in_transaction());
  EXPECT_THROW(writer.write(draft("2")), MisuseError) << "there is none of this thread";
  std::jthread([this, tx = std::move(tx)]() mutable {
    tx.write(draft("2"));
    tx.commit();
  }).join();
  auto next = writer.begin();
  writer.write(draft("3"));
  next.commit();
  EXPECT_EQ(rows(), 3);
}

TEST_F(WriterTest, AThreadMayHaveATransactionOfItsOwnBesideOneThatItWasHanded) {
  Writer other(memory::open({.concurrent_transactions = true}));
  auto handed = other.begin();
  std::jthread([&] {
    auto own = other.begin();
    other.write(draft("1"));
    handed.write(draft("2"));
    own.commit();
    handed.rollback();
  }).join();
  EXPECT_EQ(other.store().admin().count({}), 1);
}

TEST_F(WriterTest, ATransactionDestroyedByAnotherThreadIsRolledBackLikeAnyOther) {
  auto tx = std::make_unique<Transaction>(writer.begin());
  const std::string id = tx->write(draft("1"));
  bool undone = false;
  tx->after_rollback([&] { undone = true; });
  std::jthread([tx = std::move(tx)]() mutable { tx.reset(); }).join();
  EXPECT_TRUE(undone);
  EXPECT_FALSE(writer.in_transaction()) << "its own thread may begin the next one";
  writer.begin().commit();
  EXPECT_FALSE(store->admin().find(id));
}

TEST_F(WriterTest, AnOpenSavepointKeepsTheCommitBack) {
  auto tx = writer.begin();
  auto open = tx.savepoint();
  EXPECT_THROW(tx.commit(), MisuseError);
  open.release();
  EXPECT_THROW(open.release(), MisuseError);
  tx.commit();
}

TEST_F(WriterTest, OnTheUsersOwnConnectionTheTokenTellsOfTheCommitOnce) {
  const auto own = store->connect();
  EXPECT_THROW(writer.write(*own, draft("1")), MisuseError) << "no transaction";
  EXPECT_THROW(writer.write_all(*own, {}), MisuseError);
  own->begin();
  WriteToken token = writer.write(*own, draft("1"));
  EXPECT_TRUE(own->in_transaction()) << "never begun or ended by the library";
  EXPECT_EQ(hook->told, Texts{"write 1"});
  own->commit();
  ASSERT_EQ(token.ids().size(), 1u);
  token.committed();
  token.committed();
  EXPECT_EQ(hook->told, (Texts{"write 1", "commit 1"}));
  EXPECT_TRUE(store->admin().find(token.ids()[0]));
}

}  // namespace
}  // namespace outbox::testing
