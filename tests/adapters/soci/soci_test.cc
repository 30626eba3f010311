#include "outbox/adapter/soci.h"

#include <future>

#include "adapters/adapter_test.h"
#include "outbox/memory.h"
#include "support/mysql.h"
#include "support/tcp_proxy.h"

namespace outbox::adapters {
namespace {

// SOCI takes settings apart by itself, and knows no URLs.
std::string settings(int port) {
  return "host=127.0.0.1 user=postgres dbname=outbox port=" + std::to_string(port);
}

class SociOwner final : public Owner {
 public:
  SociOwner(const soci::backend_factory& backend, const std::string& settings)
      : session_(backend, settings) {}
  void begin() override { tx_ = std::make_unique<soci::transaction>(session_); }
  void commit() override {
    tx_->commit();
    tx_.reset();
  }
  void rollback() override { tx_.reset(); }
  void run(const std::string& sql) override { session_ << sql; }
  std::unique_ptr<Connection> wrap(Store& store) override { return outbox::wrap(session_, store); }

 private:
  soci::session session_;
  std::unique_ptr<soci::transaction> tx_;
};

INSTANTIATE_TEST_SUITE_P(PostgresSoci, AdapterSuite,
                         ::testing::Values(Library{
                             Dialect::postgres, [](const Place&) {
                               return std::make_unique<SociOwner>(
                                   soci::postgresql, settings(test::port_of(test::postgres_url())));
                             }}));
INSTANTIATE_TEST_SUITE_P(MysqlSoci, AdapterSuite,
                         ::testing::Values(Library{
                             Dialect::mysql, [](const Place& place) {
                               return std::make_unique<SociOwner>(
                                   soci::mysql,
                                   "host=127.0.0.1 user=root db=" + place.name() +
                                       " port=" + std::to_string(test::port_of(test::mysql_url())));
                             }}));
INSTANTIATE_TEST_SUITE_P(SqliteSoci, AdapterSuite,
                         ::testing::Values(Library{Dialect::sqlite, [](const Place& place) {
                                                     return std::make_unique<SociOwner>(
                                                         soci::sqlite3, place.name());
                                                   }}));

class PostgresSociTest : public PostgresAdapterTest {
 protected:
  void SetUp() override {
    PostgresAdapterTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    session_ = std::make_unique<soci::session>(soci::postgresql,
                                               settings(test::port_of(test::postgres_url())));
  }

  std::unique_ptr<soci::session> session_;
};

TEST_F(PostgresSociTest, InAFailedTransactionItFailsAtOnce) {
  const auto mine = wrap(*session_, *store_);
  soci::transaction tx(*session_);
  EXPECT_THROW(*session_ << "SELECT 1 / 0", soci::soci_error);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError) << "roll back first";
  tx.rollback();
  EXPECT_EQ(rows(), 0);
}

TEST_F(PostgresSociTest, ALostCommitIsAnErrorAndTheRowMayExist) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  soci::session lossy(soci::postgresql, settings(proxy.port()));
  const auto mine = wrap(lossy, *store_);
  soci::transaction tx(lossy);
  writer_->write(*mine, draft("unknown"));
  proxy.drop_reply("COMMIT");
  EXPECT_THROW(tx.commit(), soci::soci_error);
  EXPECT_EQ(rows(), 1);
}

TEST_F(PostgresSociTest, WhatIsNotConnectedAndOtherStoresAreRefused) {
  soci::session closed;
  EXPECT_THROW(wrap(closed, *store_), MisuseError);
  const auto other = new_place(Dialect::sqlite);
  EXPECT_THROW(wrap(*session_, *other->open()), MisuseError) << "of another backend";
  EXPECT_THROW(wrap(*session_, *memory::open()), MisuseError);
}

class MysqlSociTest : public MysqlAdapterTest {
 protected:
  void SetUp() override {
    MysqlAdapterTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    session_ =
        std::make_unique<soci::session>(soci::mysql, settings(test::port_of(test::mysql_url())));
  }

  // SOCI takes settings apart by itself, and knows no URLs.
  std::string settings(int port) const {
    return "host=127.0.0.1 user=root db=" + place_->name() + " port=" + std::to_string(port);
  }

  std::unique_ptr<soci::session> session_;
};

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
  // The server rolls back the one that has changed less.
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

}  // namespace
}  // namespace outbox::adapters
