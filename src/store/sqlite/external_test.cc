#include "outbox/memory.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

class ExternalConnectionTest : public SqliteTest {
 protected:
  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
};

TEST_F(ExternalConnectionTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
  const auto external = wrap(db_.get(), *store_);
  const Event lost = simple_event("lost");
  const Event kept = simple_event("kept");
  EXPECT_FALSE(external->in_transaction());
  db_.run("BEGIN");
  EXPECT_TRUE(external->in_transaction());
  external->insert({&lost, 1}, {});
  db_.run("ROLLBACK");
  db_.run("BEGIN IMMEDIATE");
  const auto refs = external->insert({&kept, 1}, {});
  EXPECT_FALSE(store_->find("kept")) << "not committed yet";
  db_.run("COMMIT");
  EXPECT_FALSE(store_->find("lost"));
  EXPECT_EQ(store_->find("kept")->row.ref.seq, refs.at(0).seq);
}

TEST_F(ExternalConnectionTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  const auto external = wrap(db_.get(), *store_);
  const Event event = simple_event("e");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         external->insert({&event, 1}, {});
                       }),
                       "BEGIN IMMEDIATE"));
  EXPECT_THROW(external->insert({}, {}), MisuseError);
  EXPECT_FALSE(store_->find("e"));
}

TEST_F(ExternalConnectionTest, TheTransactionIsItsOwners) {
  const auto external = wrap(db_.get(), *store_);
  db_.run("BEGIN");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { external->commit(); }), "commit()"));
  EXPECT_THROW(external->begin(), MisuseError);
  EXPECT_THROW(external->rollback(), MisuseError);
  EXPECT_THROW(external->savepoint("a"), MisuseError);
  EXPECT_THROW(external->release("a"), MisuseError);
  EXPECT_THROW(external->rollback_to("a"), MisuseError);
  EXPECT_THROW(external->execute("COMMIT", {}), MisuseError);
  EXPECT_TRUE(external->in_transaction());
}

TEST_F(ExternalConnectionTest, StatementsRunOnTheOwnersConnection) {
  const auto external = wrap(db_.get(), *store_);
  db_.run("CREATE TEMP TABLE mine (a)");
  EXPECT_EQ(
      external->execute("INSERT INTO mine VALUES (?)", std::vector<Parameter>{std::int64_t{7}}), 1);
  EXPECT_EQ(external->query("SELECT a FROM mine", {}).at(0).at(0), Value{std::int64_t{7}});
}

TEST_F(ExternalConnectionTest, AnotherDatabaseIsRefused) {
  const ForeignConnection elsewhere(file("other.db"));
  elsewhere.run("CREATE TABLE t (a)");
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { wrap(elsewhere.get(), *store_); }), file("other.db")));
  const ForeignConnection memory(":memory:");
  EXPECT_THROW(wrap(memory.get(), *store_), MisuseError);
  EXPECT_THROW(wrap(static_cast<sqlite3*>(nullptr), *store_), MisuseError);
  const auto other_store = memory::open();
  EXPECT_THROW(wrap(db_.get(), *other_store), MisuseError);
}

TEST_F(ExternalConnectionTest, TheSameFileByAnotherNameIsTheSameDatabase) {
  std::filesystem::create_symlink(path(), file("link.db"));
  const ForeignConnection linked(file("link.db"));
  linked.run("BEGIN IMMEDIATE");
  const auto external = wrap(linked.get(), *store_);
  const Event event = simple_event("e");
  external->insert({&event, 1}, {});
  linked.run("COMMIT");
  EXPECT_TRUE(store_->find("e"));
}

TEST_F(ExternalConnectionTest, ADuplicateIsNamedAndTheTransactionGoesOn) {
  write_event(*store_, simple_event("there"));
  const auto external = wrap(db_.get(), *store_);
  db_.run("BEGIN IMMEDIATE");
  const Event duplicate = simple_event("there");
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         external->insert({&duplicate, 1}, {});
                       }),
                       "\"there\""));
  db_.run("COMMIT");
}

TEST_F(ExternalConnectionTest, AReadBeforeTheWriteOfAnotherIsRetryableAndTheHintSaysHow) {
  const auto external = wrap(db_.get(), *store_);
  db_.run("BEGIN; SELECT * FROM outbox_event");
  write_event(*store_, simple_event("other"));
  const Event event = simple_event("e");
  EXPECT_TRUE(contains(message_of<RetryableError>([&] {
                         external->insert({&event, 1}, {});
                       }),
                       "BEGIN IMMEDIATE"));
  db_.run("ROLLBACK");
}

TEST_F(ExternalConnectionTest, NoHookAndNoSettingOfTheOwnersIsTouched) {
  static int commits = 0;
  commits = 0;
  sqlite3_commit_hook(
      db_.get(), [](void*) { return static_cast<void>(++commits), 0; }, nullptr);
  {
    const auto external = wrap(db_.get(), *store_);
    db_.run("BEGIN IMMEDIATE");
    const Event event = simple_event("e");
    external->insert({&event, 1}, {});
    db_.run("COMMIT");
  }
  EXPECT_EQ(commits, 1);
  EXPECT_EQ(db_.value("PRAGMA busy_timeout"), "20000");
}

TEST_F(ExternalConnectionTest, AHandleBelongsToAPooledConnectionOnly) {
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
