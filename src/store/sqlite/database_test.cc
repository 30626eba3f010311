#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstddef>
#include <fstream>
#include <optional>
#include <tuple>

#include "outbox/memory.h"
#include "outbox/writer.h"
#include "store/sqlite/test_support.h"

namespace outbox::sqlite {
namespace {

class DatabaseTest : public SqliteTest {
 protected:
  std::string pragma(Store& store, const std::string& name) {
    const auto connection = store.connect();
    const auto rows = connection->query("PRAGMA " + name, {});
    const Value& value = rows.at(0).at(0);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    return std::to_string(std::get<std::int64_t>(value));
  }
};

TEST_F(DatabaseTest, WritesAheadWithTheDurabilityAskedFor) {
  const auto full = sqlite::open(path(), {.durability = Durability::full});
  EXPECT_EQ(pragma(*full, "journal_mode"), "wal");
  EXPECT_EQ(pragma(*full, "synchronous"), "2");
  const auto normal = sqlite::open(path(), {.durability = Durability::normal});
  EXPECT_EQ(pragma(*normal, "synchronous"), "1");
}

TEST_F(DatabaseTest, RefusesDatabasesInMemoryAndSaysWhatToUse) {
  for (const char* nowhere :
       {"", ":memory:", "file::memory:", "file:x?mode=memory&cache=shared", "file:/x?vfs=memdb"}) {
    EXPECT_TRUE(
        contains(message_of<MisuseError>([&] { sqlite::open(nowhere); }), "outbox::memory::open()"))
        << nowhere;
  }
}

TEST_F(DatabaseTest, InvalidOptionsMakeNoFile) {
  EXPECT_THROW(open_store({.connections = 0}), MisuseError);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(DatabaseTest, AMissingFolderIsNamed) {
  const std::string nowhere = file("missing/outbox.db");
  const auto message = message_of<PermanentError>([&] { sqlite::open(nowhere); });
  EXPECT_TRUE(contains(message, nowhere));
  EXPECT_TRUE(contains(message, "check that the folder exists"));
}

TEST_F(DatabaseTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(path()) << std::string(5'000, 'x');
  const auto message = message_of<PermanentError>([&] { open_store(); });
  EXPECT_TRUE(contains(message, "not an SQLite database"));
  EXPECT_TRUE(contains(message, path()));
}

TEST_F(DatabaseTest, ADamagedDatabaseIsRefused) {
  open_store();
  {
    // Behind the header, so that it still looks like a database.
    std::fstream damaged(path(), std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(100);
    damaged << std::string(4'000, '\xff');
  }
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { open_store(); }), "damaged"));
}

TEST_F(DatabaseTest, ADatabaseOpenedReadOnlyIsRefused) {
  open_store();
  EXPECT_TRUE(
      contains(message_of<PermanentError>([&] { sqlite::open("file:" + path() + "?mode=ro"); }),
               "read-only"));
}

TEST_F(DatabaseTest, AUriNamesAFileToo) {
  const auto store = sqlite::open("file:" + path() + "?cache=private");
  EXPECT_TRUE(contains(store->description(), path() + ","));
}

TEST_F(DatabaseTest, EachConnectionIsSetUpByTheUserOnce) {
  int opened = 0;
  const auto store = open_store({.on_open = [&](sqlite3* db) {
    ++opened;
    sqlite3_exec(db, "PRAGMA foreign_keys = ON", nullptr, nullptr, nullptr);
  }});
  EXPECT_EQ(opened, 0);
  for (int i = 0; i < 3; ++i) {
    const auto first = store->connect();
    const auto second = store->connect();
    EXPECT_EQ(first->query("PRAGMA foreign_keys", {}).at(0).at(0), Value{std::int64_t{1}});
    EXPECT_EQ(second->query("PRAGMA foreign_keys", {}).at(0).at(0), Value{std::int64_t{1}});
  }
  EXPECT_EQ(opened, 2);
}

TEST_F(DatabaseTest, ASetUpThatThrowsLeavesTheConnectionUnused) {
  bool fail = true;
  const auto store = open_store({.connections = 1, .wait_timeout = 20ms, .on_open = [&](sqlite3*) {
                                   if (fail) throw std::runtime_error("no");
                                 }});
  EXPECT_THROW(store->connect(), std::runtime_error);
  fail = false;
  EXPECT_NE(store->connect(), nullptr);
}

// --- Waiting ---

TEST_F(DatabaseTest, SaysThatATransactionOfThisProcessIsInTheWay) {
  const auto store = open_store({.wait_timeout = 20ms});
  const auto first = store->connect();
  const auto second = store->connect();
  first->begin();
  const auto message = message_of<RetryableError>([&] { second->begin(); });
  EXPECT_TRUE(contains(message, "behind other transactions of this process"));
  EXPECT_TRUE(contains(message, "sqlite::Options::wait_timeout"));
  first->rollback();
  second->begin();
}

TEST_F(DatabaseTest, SaysThatAnotherProgramIsInTheWay) {
  const auto store = open_store({.wait_timeout = 20ms});
  const ForeignConnection other(path());
  other.run("BEGIN IMMEDIATE");
  const auto connection = store->connect();
  const auto message = message_of<RetryableError>([&] { connection->begin(); });
  EXPECT_TRUE(contains(message, "waited 20 ms for another process"));
  EXPECT_FALSE(connection->in_transaction());
  other.run("ROLLBACK");
  connection->begin();
  EXPECT_TRUE(connection->in_transaction());
}

TEST_F(DatabaseTest, WaitsForAnotherProgramToFinish) {
  const auto store = open_store({.wait_timeout = 20s});
  const ForeignConnection other(path());
  other.run("BEGIN IMMEDIATE");
  testing::Signal begun;
  std::jthread writer([&] {
    const auto connection = store->connect();
    connection->begin();
    begun.raise();
  });
  EXPECT_FALSE(begun.wait(1, 5ms));
  other.run("COMMIT");
  EXPECT_TRUE(begun.wait());
}

TEST_F(DatabaseTest, AStatementOutsideATransactionStandsInLineToo) {
  const auto store = open_store({.wait_timeout = 20ms});
  const auto first = store->connect();
  const auto second = store->connect();
  second->execute("CREATE TABLE t (a)", {});
  first->begin();
  EXPECT_TRUE(
      contains(message_of<RetryableError>([&] { second->execute("INSERT INTO t VALUES (1)", {}); }),
               "transactions of this process"));
  EXPECT_TRUE(second->query("SELECT * FROM t", {}).empty()) << "readers never wait";
}

// --- Statements of the user's ---

class UserSqlTest : public SqliteTest {
 protected:
  void SetUp() override {
    connection_->execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE)", {});
  }

  const std::shared_ptr<Store> store_ = open_store();
  const std::unique_ptr<Connection> connection_ = store_->connect();
};

TEST_F(UserSqlTest, EveryKindOfValueComesBackAsItWas) {
  const std::vector<Value> values{nullptr,       std::int64_t{-5},
                                  2.5,           std::string("a\0b", 3),
                                  std::string(), Blob{std::string("\0\xff", 2)},
                                  Blob{}};
  const std::vector<Parameter> parameters(values.begin(), values.end());
  const auto rows = connection_->query("SELECT ?, ?, ?, ?, ?, ?, ?", parameters);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].values(), values);
}

TEST_F(UserSqlTest, OneRowIsAValueOrATuple) {
  Writer writer(store_);
  auto tx = writer.begin();
  tx.execute("INSERT INTO t (a, b) VALUES (?, ?), (?, ?)", 1, "one", 2, nullptr);
  EXPECT_EQ(tx.query_one<int>("SELECT count(*) FROM t"), 2);
  EXPECT_EQ(tx.query_one<std::string>("SELECT b FROM t WHERE a = ?", 1), "one");
  EXPECT_EQ((tx.query_one<int, std::optional<std::string>>("SELECT a, b FROM t WHERE a = ?", 2)),
            std::tuple(2, std::optional<std::string>()));
  EXPECT_EQ(tx.query_optional<std::string>("SELECT b FROM t WHERE a = ?", 1), "one");
  EXPECT_EQ(tx.query_optional<std::string>("SELECT b FROM t WHERE a = ?", 3), std::nullopt);
}

TEST_F(UserSqlTest, AnotherNumberOfRowsOrColumnsIsRefused) {
  Writer writer(store_);
  auto tx = writer.begin();
  tx.execute("INSERT INTO t (a, b) VALUES (1, 2), (2, 3)");
  const auto refused = [&](auto work) { return message_of<MisuseError>(work); };
  EXPECT_TRUE(contains(refused([&] { tx.query_one<int>("SELECT a FROM t WHERE a = 3"); }),
                       "no row from \"SELECT a FROM t WHERE a = 3\": if there may be none, call "
                       "query_optional()"));
  EXPECT_TRUE(contains(refused([&] { tx.query_one<int>("SELECT a FROM t"); }), "2 came from"));
  EXPECT_TRUE(contains(refused([&] { tx.query_optional<int>("SELECT a FROM t"); }), "2 came from"));
  EXPECT_TRUE(contains(refused([&] { tx.query_one<int>("SELECT a, b FROM t WHERE a = 1"); }),
                       "2 columns, and 1 types were requested"));
  EXPECT_TRUE(
      contains(refused([&] { tx.query_one<int>("SELECT b AS cents FROM (SELECT 'x' AS b)"); }),
               "column \"cents\" is the text \"x\", not an integer"));
}

TEST_F(UserSqlTest, TellsHowManyRowsWereChanged) {
  EXPECT_EQ(connection_->execute("INSERT INTO t (b) VALUES (1), (2), (3)", {}), 3);
  EXPECT_EQ(connection_->execute("UPDATE t SET b = b + 10 WHERE a > 1", {}), 2);
  EXPECT_EQ(connection_->execute("CREATE INDEX i ON t (b)", {}), 0);
  EXPECT_EQ(connection_->execute("DELETE FROM t", {}), 3);
}

TEST_F(UserSqlTest, AConstraintIsRefusedInSqlitesWords) {
  connection_->begin();
  connection_->execute("INSERT INTO t (b) VALUES (1)", {});
  EXPECT_TRUE(contains(
      message_of<DatabaseError>([&] { connection_->execute("INSERT INTO t (b) VALUES (1)", {}); }),
      "UNIQUE constraint failed: t.b"));
  EXPECT_TRUE(connection_->in_transaction());
  connection_->commit();
  EXPECT_EQ(connection_->query("SELECT * FROM t", {}).size(), 1u);
}

TEST_F(UserSqlTest, WrongSqlIsRefusedAndIsShown) {
  EXPECT_TRUE(contains(message_of<DatabaseError>([&] { connection_->execute("SELEKT 1", {}); }),
                       "SELEKT 1"));
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { connection_->execute("SELECT 1; SELECT 2", {}); }),
               "more than one statement"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { connection_->execute("-- nothing", {}); }),
                       "no statement"));
  EXPECT_EQ(connection_->query("SELECT 1; -- that's all\n ", {}).size(), 1u);
}

TEST_F(UserSqlTest, TheNumberOfValuesMustFit) {
  EXPECT_TRUE(contains(message_of<MisuseError>([&] {
                         connection_->execute("SELECT ?, ?",
                                              std::vector<Parameter>{std::int64_t{1}});
                       }),
                       "takes 2 values and was given 1"));
}

TEST_F(UserSqlTest, TransactionsAreNotBegunOrEndedBySql) {
  connection_->begin();
  for (const char* sql : {"COMMIT", " end", "/* x */ rollback", "-- x\nSAVEPOINT a", "RELEASE a",
                          ";Begin immediate"}) {
    EXPECT_THROW(connection_->execute(sql, {}), MisuseError) << sql;
    EXPECT_THROW(connection_->query(sql, {}), MisuseError) << sql;
  }
  EXPECT_TRUE(connection_->in_transaction());
}

TEST_F(UserSqlTest, MoreStatementsThanAreKeptAllWork) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 100; ++i) {
      const auto rows = connection_->query("SELECT " + std::to_string(i), {});
      EXPECT_EQ(rows.at(0).at(0), Value{std::int64_t{i}});
    }
  }
}

TEST_F(UserSqlTest, AKeptStatementSurvivesAChangeOfTheSchema) {
  EXPECT_EQ(connection_->query("SELECT * FROM t", {}).size(), 0u);
  connection_->execute("ALTER TABLE t ADD COLUMN c DEFAULT 7", {});
  connection_->execute("INSERT INTO t (b) VALUES (1)", {});
  EXPECT_EQ(connection_->query("SELECT * FROM t", {}).at(0).size(), 3u);
}

TEST_F(UserSqlTest, SavepointsTakeAnyName) {
  connection_->begin();
  const std::string name = "it's \"quoted\"; --";
  connection_->savepoint(name);
  connection_->execute("INSERT INTO t (b) VALUES (1)", {});
  connection_->rollback_to(name);
  connection_->release(name);
  connection_->commit();
  EXPECT_TRUE(connection_->query("SELECT * FROM t", {}).empty());
}

TEST_F(UserSqlTest, ACommitThatIsRefusedDidNotHappenAndIsOver) {
  connection_->execute("PRAGMA foreign_keys = ON", {});
  connection_->execute("CREATE TABLE child (t REFERENCES t DEFERRABLE INITIALLY DEFERRED)", {});
  connection_->begin();
  connection_->execute("INSERT INTO child VALUES (42)", {});
  EXPECT_TRUE(contains(message_of<DatabaseError>([&] { connection_->commit(); }),
                       "FOREIGN KEY constraint failed"));
  EXPECT_FALSE(connection_->in_transaction());
  EXPECT_TRUE(connection_->query("SELECT * FROM child", {}).empty());
  store_->connect()->begin();  // nobody stands in the way
}

// What made SQLite roll back would do so again.
TEST_F(UserSqlTest, AfterARollbackByAWrongStatementTheTransactionIsNotToBeStartedOver) {
  connection_->execute("CREATE TABLE once (a PRIMARY KEY)", {});
  connection_->execute("INSERT INTO once VALUES (1)", {});
  connection_->begin();
  EXPECT_THROW(connection_->execute("INSERT OR ROLLBACK INTO once VALUES (1)", {}), DatabaseError);
  EXPECT_THROW(connection_->execute("INSERT INTO t (b) VALUES (2)", {}), DatabaseError);
  const std::string message = message_of<DatabaseError>([&] { connection_->commit(); });
  EXPECT_TRUE(contains(message, "UNIQUE constraint failed"));
  EXPECT_TRUE(contains(message, "it would fail again"));
  connection_->begin();
  connection_->execute("INSERT INTO t (b) VALUES (3)", {});
  EXPECT_NO_THROW(connection_->commit());
}

// A full disk makes SQLite roll back by itself; what follows must not be
// committed statement by statement.
TEST_F(UserSqlTest, AfterSqliteRolledBackByItselfNothingMoreIsWritten) {
  connection_->begin();
  connection_->execute("INSERT INTO t (b) VALUES (1)", {});
  sqlite3_exec(sqlite::handle(*connection_), "ROLLBACK", nullptr, nullptr, nullptr);
  EXPECT_THROW(connection_->execute("INSERT INTO t (b) VALUES (2)", {}), RetryableError);
  const Event event = simple_event("e");
  EXPECT_THROW(connection_->insert({&event, 1}, {}), RetryableError);
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { connection_->commit(); }),
                       "rolled back by SQLite"));
  EXPECT_FALSE(connection_->in_transaction());
  EXPECT_TRUE(connection_->query("SELECT * FROM t", {}).empty());
}

TEST_F(UserSqlTest, AFullDatabaseIsRetryableAndSaysSo) {
  const ForeignConnection other(path());
  connection_->execute("PRAGMA max_page_count = 1", {});  // no more than there are
  connection_->begin();
  const auto message = message_of<RetryableError>([&] {
    connection_->execute("INSERT INTO t (b) VALUES (?)",
                         std::vector<Parameter>{std::string(1'000'000, 'x')});
  });
  EXPECT_TRUE(contains(message, "full"));
}

// --- Connections of the user's ---

class SqliteExternalConnectionTest : public SqliteTest {
 protected:
  const std::shared_ptr<Store> store_ = open_store();
  const ForeignConnection db_{path()};
};

TEST_F(SqliteExternalConnectionTest, StatementsRunOnTheOwnersConnection) {
  const auto external = wrap(db_.get(), *store_);
  db_.run("CREATE TEMP TABLE mine (a)");
  EXPECT_EQ(
      external->execute("INSERT INTO mine VALUES (?)", std::vector<Parameter>{std::int64_t{7}}), 1);
  EXPECT_EQ(external->query("SELECT a FROM mine", {}).at(0).at(0), Value{std::int64_t{7}});
}

TEST_F(SqliteExternalConnectionTest, AnotherDatabaseIsRefused) {
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

TEST_F(SqliteExternalConnectionTest, TheSameFileByAnotherNameIsTheSameDatabase) {
  std::filesystem::create_symlink(path(), file("link.db"));
  const ForeignConnection linked(file("link.db"));
  linked.run("BEGIN IMMEDIATE");
  const auto external = wrap(linked.get(), *store_);
  const Event event = simple_event("e");
  external->insert({&event, 1}, {});
  linked.run("COMMIT");
  EXPECT_TRUE(store_->admin().find("e"));
}

TEST_F(SqliteExternalConnectionTest, AReadBeforeTheWriteOfAnotherIsRetryableAndTheHintSaysHow) {
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

TEST_F(SqliteExternalConnectionTest, NoHookAndNoSettingOfTheOwnersIsTouched) {
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

TEST_F(SqliteExternalConnectionTest, AHandleBelongsToAPooledConnectionOnly) {
  const auto connection = store_->connect();
  connection->begin();
  sqlite3* db = sqlite::handle(*connection);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(sqlite3_get_autocommit(db), 0);
  const auto other_store = memory::open();
  const auto other = other_store->connect();
  EXPECT_THROW(sqlite::handle(*other), MisuseError);
}

// --- Commits that fail ---

class CommitTest : public SqliteTest {
 protected:
  enum Ended { kCommitted = 10, kUndone, kUnknown, kCannotTry };

  // In a process of its own: `fault` breaks something just before the commit.
  int commit_with(const std::function<bool()>& fault) {
    ChildProcess child([&] {
      const auto store = sqlite::open(path(), {.durability = Durability::full});
      const auto connection = store->connect();
      connection->begin();
      const Event event = simple_event("e");
      connection->insert({&event, 1}, {});
      if (!fault()) return kCannotTry;
      try {
        connection->commit();
      } catch (const OutcomeUnknownError&) {
        return connection->in_transaction() ? kCannotTry : kUnknown;
      } catch (const RetryableError&) {
        return connection->in_transaction() ? kCannotTry : kUndone;
      }
      return kCommitted;
    });
    return child.wait();
  }
};

TEST_F(CommitTest, WithoutAFaultItHappens) {
  EXPECT_EQ(commit_with([] { return true; }), kCommitted);
  EXPECT_TRUE(open_store()->admin().find("e"));
}

TEST_F(CommitTest, ACommitThatCannotBeWrittenDidNotHappen) {
  open_store();
  const int ended = commit_with([] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit no_growth{0, 0};
    return setrlimit(RLIMIT_FSIZE, &no_growth) == 0;
  });
  EXPECT_EQ(ended, kUndone);
  EXPECT_FALSE(open_store()->admin().find("e"));
}

TEST_F(CommitTest, ACommitThatTheDiskDoesNotConfirmIsOfUnknownOutcome) {
  open_store();
  const int ended = commit_with([] {
    // From now on the kernel answers fsync() and fdatasync() with EIO.
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fdatasync, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{std::size(filter), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  });
  if (ended == kCannotTry) GTEST_SKIP() << "this system does not let a process break its fsync()";
  EXPECT_EQ(ended, kUnknown);
}

}  // namespace
}  // namespace outbox::sqlite
