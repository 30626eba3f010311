#include "outbox/memory.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

class BorrowedTest : public SqliteTest {
 protected:
  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
};

TEST_F(BorrowedTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
  Borrowed borrowed(db_.get(), *store_);
  const Event lost = simple_event("lost");
  const Event kept = simple_event("kept");
  EXPECT_FALSE(borrowed.in_transaction());
  db_.run("BEGIN");
  EXPECT_TRUE(borrowed.in_transaction());
  borrowed.insert({&lost, 1}, {});
  db_.run("ROLLBACK");
  db_.run("BEGIN IMMEDIATE");
  const auto refs = borrowed.insert({&kept, 1}, {});
  EXPECT_FALSE(store_->find("kept")) << "not committed yet";
  db_.run("COMMIT");
  EXPECT_FALSE(store_->find("lost"));
  EXPECT_EQ(store_->find("kept")->row.ref.seq, refs.at(0).seq);
}

TEST_F(BorrowedTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  Borrowed borrowed(db_.get(), *store_);
  const Event event = simple_event("e");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         borrowed.insert({&event, 1}, {});
                       }),
                       "BEGIN IMMEDIATE"));
  EXPECT_THROW(borrowed.insert({}, {}), MisuseError);
  EXPECT_FALSE(store_->find("e"));
}

TEST_F(BorrowedTest, TheTransactionIsItsOwners) {
  Borrowed borrowed(db_.get(), *store_);
  db_.run("BEGIN");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { borrowed.commit(); }), "commit()"));
  EXPECT_THROW(borrowed.begin(), MisuseError);
  EXPECT_THROW(borrowed.rollback(), MisuseError);
  EXPECT_THROW(borrowed.savepoint("a"), MisuseError);
  EXPECT_THROW(borrowed.release("a"), MisuseError);
  EXPECT_THROW(borrowed.rollback_to("a"), MisuseError);
  EXPECT_THROW(borrowed.execute("COMMIT", {}), MisuseError);
  EXPECT_TRUE(borrowed.in_transaction());
}

TEST_F(BorrowedTest, StatementsRunOnTheOwnersConnection) {
  Borrowed borrowed(db_.get(), *store_);
  db_.run("CREATE TEMP TABLE mine (a)");
  EXPECT_EQ(borrowed.execute("INSERT INTO mine VALUES (?)", std::vector<Value>{std::int64_t{7}}),
            1);
  EXPECT_EQ(borrowed.query("SELECT a FROM mine", {}).at(0).at(0), Value{std::int64_t{7}});
}

TEST_F(BorrowedTest, AnotherDatabaseIsRefused) {
  const ForeignConnection elsewhere(file("other.db"));
  elsewhere.run("CREATE TABLE t (a)");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { Borrowed(elsewhere.get(), *store_); }),
                       file("other.db")));
  const ForeignConnection memory(":memory:");
  EXPECT_THROW(Borrowed(memory.get(), *store_), MisuseError);
  EXPECT_THROW(Borrowed(nullptr, *store_), MisuseError);
  const auto other_store = memory::open();
  EXPECT_THROW(Borrowed(db_.get(), *other_store), MisuseError);
}

TEST_F(BorrowedTest, TheSameFileByAnotherNameIsTheSameDatabase) {
  std::filesystem::create_symlink(path(), file("link.db"));
  const ForeignConnection linked(file("link.db"));
  linked.run("BEGIN IMMEDIATE");
  Borrowed borrowed(linked.get(), *store_);
  const Event event = simple_event("e");
  borrowed.insert({&event, 1}, {});
  linked.run("COMMIT");
  EXPECT_TRUE(store_->find("e"));
}

TEST_F(BorrowedTest, ADuplicateIsNamedAndTheTransactionGoesOn) {
  write_event(*store_, simple_event("there"));
  Borrowed borrowed(db_.get(), *store_);
  db_.run("BEGIN IMMEDIATE");
  const Event duplicate = simple_event("there");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         borrowed.insert({&duplicate, 1}, {});
                       }),
                       "\"there\""));
  db_.run("COMMIT");
}

TEST_F(BorrowedTest, AReadBeforeTheWriteOfAnotherIsRetryableAndTheHintSaysHow) {
  Borrowed borrowed(db_.get(), *store_);
  db_.run("BEGIN; SELECT * FROM outbox_event");
  write_event(*store_, simple_event("other"));
  const Event event = simple_event("e");
  EXPECT_TRUE(contains(message_of<RetryableError>([&] {
                         borrowed.insert({&event, 1}, {});
                       }),
                       "BEGIN IMMEDIATE"));
  db_.run("ROLLBACK");
}

TEST_F(BorrowedTest, NoHookAndNoSettingOfTheOwnersIsTouched) {
  static int commits = 0;
  commits = 0;
  sqlite3_commit_hook(
      db_.get(), [](void*) { return static_cast<void>(++commits), 0; }, nullptr);
  {
    Borrowed borrowed(db_.get(), *store_);
    db_.run("BEGIN IMMEDIATE");
    const Event event = simple_event("e");
    borrowed.insert({&event, 1}, {});
    db_.run("COMMIT");
  }
  EXPECT_EQ(commits, 1);
  EXPECT_EQ(db_.value("PRAGMA busy_timeout"), "20000");
}

TEST_F(BorrowedTest, AHandleBelongsToAPooledConnectionOnly) {
  const auto connection = store_->connect();
  connection->begin();
  sqlite3* db = sqlite::handle(*connection);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(sqlite3_get_autocommit(db), 0);
  const auto other_store = memory::open();
  const auto other = other_store->connect();
  EXPECT_THROW(sqlite::handle(*other), MisuseError);
}

}  // namespace
}  // namespace outbox::sqlite
