#include <future>

#include "adapters/adapter_test.h"
#include "outbox/adapter/soci.h"
#include "outbox/memory.h"
#include "support/mysql.h"
#include "support/tcp_proxy.h"

namespace outbox::adapters {
namespace {

class MysqlSociTest : public AdapterTest {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    database_ = std::make_unique<test::Database>();
    use(mysql::open(database_->url()));
    session_ =
        std::make_unique<soci::session>(soci::mysql, settings(test::port_of(test::mysql_url())));
  }

  // SOCI takes settings apart by itself, and knows no URLs.
  std::string settings(int port) const {
    return "host=127.0.0.1 user=root db=" + database_->name() + " port=" + std::to_string(port);
  }

  std::unique_ptr<soci::session> session_;

 private:
  std::unique_ptr<test::Database> database_;
};

TEST_F(MysqlSociTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
  const auto mine = wrap(*session_, *store_);
  {
    soci::transaction tx(*session_);
    writer_->write(*mine, draft("lost"));
  }
  {
    soci::transaction tx(*session_);
    int one = 0;
    *session_ << "SELECT 1", soci::into(one);
    const WriteToken token = writer_->write(*mine, draft("kept"));
    EXPECT_FALSE(store_->find("kept")) << "not committed yet";
    tx.commit();
  }
  EXPECT_FALSE(store_->find("lost"));
  EXPECT_TRUE(store_->find("kept"));
}

TEST_F(MysqlSociTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  const auto mine = wrap(*session_, *store_);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
  EXPECT_THROW(writer_->write_all(*mine, {}), MisuseError);
  EXPECT_EQ(rows(), 0);
}

TEST_F(MysqlSociTest, AStatementThatFailedLeavesTheTransactionOpen) {
  const auto mine = wrap(*session_, *store_);
  soci::transaction tx(*session_);
  EXPECT_THROW(*session_ << "SELECT nonsense", soci::soci_error);
  writer_->write(*mine, draft("e"));
  tx.commit();
  EXPECT_EQ(rows(), 1);
}

TEST_F(MysqlSociTest, AfterADeadlockAWriteIsRefused) {
  *session_ << "CREATE TABLE accounts (id int PRIMARY KEY, cents int)";
  *session_ << "CREATE TABLE ballast (id int)";
  *session_ << "INSERT INTO accounts VALUES (1, 0), (2, 0)";
  const auto mine = wrap(*session_, *store_);
  soci::session other(soci::mysql, settings(test::port_of(test::mysql_url())));
  // The server rolls back whoever has changed less.
  soci::transaction tx_of_other(other);
  other << "INSERT INTO ballast VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)";
  other << "UPDATE accounts SET cents = 2 WHERE id = 2";
  soci::transaction tx(*session_);
  *session_ << "UPDATE accounts SET cents = 1 WHERE id = 1";
  auto blocked = std::async(std::launch::async,
                            [&] { other << "UPDATE accounts SET cents = 2 WHERE id = 1"; });
  EXPECT_THROW(*session_ << "UPDATE accounts SET cents = 1 WHERE id = 2", soci::soci_error);
  blocked.get();
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
  tx_of_other.commit();
  EXPECT_EQ(rows(), 0);
}

TEST_F(MysqlSociTest, AnEventInsideARolledBackSavepointIsGoneAndTheOthersStay) {
  const auto mine = wrap(*session_, *store_);
  soci::transaction tx(*session_);
  writer_->write(*mine, draft("before"));
  *session_ << "SAVEPOINT part";
  writer_->write(*mine, draft("inside"));
  *session_ << "ROLLBACK TO part";
  writer_->write(*mine, draft("after"));
  tx.commit();
  EXPECT_FALSE(store_->find("inside"));
  EXPECT_EQ(rows(), 2);
}

TEST_F(MysqlSociTest, BytesAndTimesAreTheSameWhateverTheOwnersSettings) {
  *session_ << "SET NAMES latin1";
  *session_ << "SET time_zone = '+05:45'";
  *session_ << "SET sql_mode = 'NO_BACKSLASH_ESCAPES'";
  const auto mine = wrap(*session_, *store_);
  soci::transaction tx(*session_);
  const Payload text = json(R"({"a":"ü 日本 😀"})");
  const Payload raw = bytes(std::string("\0\xff", 2));
  writer_->write(*mine, odd_draft("text", text));
  writer_->write(*mine, odd_draft("raw", raw));
  tx.commit();
  expect_odd("text", text);
  expect_odd("raw", raw);
}

TEST_F(MysqlSociTest, ALostCommitIsAnErrorAndTheRowMayExist) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::mysql_url()));
  soci::session lossy(soci::mysql, settings(proxy.port()));
  const auto mine = wrap(lossy, *store_);
  soci::transaction tx(lossy);
  writer_->write(*mine, draft("unknown"));
  proxy.drop_reply("COMMIT");
  EXPECT_THROW(tx.commit(), soci::soci_error);
  EXPECT_EQ(proxy.drops(), 1);
  EXPECT_EQ(rows(), 1);
}

TEST_F(MysqlSociTest, WhatIsNotConnectedAndOtherStoresAreRefused) {
  soci::session closed;
  EXPECT_THROW(wrap(closed, *store_), MisuseError);
  EXPECT_THROW(wrap(*session_, *memory::open()), MisuseError);
  EXPECT_THROW(postgres::wrap(*session_, *store_), MisuseError) << "of the other backend";
}

}  // namespace
}  // namespace outbox::adapters
