#include "outbox/adapter/soci.h"

#include "adapters/adapter_test.h"
#include "outbox/memory.h"
#include "support/tcp_proxy.h"

namespace outbox::adapters {
namespace {

// SOCI takes settings apart by itself, and knows no URLs.
std::string settings(int port) {
  return "host=127.0.0.1 user=postgres dbname=outbox port=" + std::to_string(port);
}

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

TEST_F(PostgresSociTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
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

TEST_F(PostgresSociTest, OutsideATransactionItFailsAtOnceAlsoForNothing) {
  const auto mine = wrap(*session_, *store_);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
  EXPECT_THROW(writer_->write_all(*mine, {}), MisuseError);
  soci::transaction tx(*session_);
  EXPECT_THROW(*session_ << "SELECT 1 / 0", soci::soci_error);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError) << "in a failed one, too";
  tx.rollback();
  EXPECT_EQ(rows(), 0);
}

TEST_F(PostgresSociTest, AnEventInsideARolledBackSavepointIsGoneAndTheOthersStay) {
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

TEST_F(PostgresSociTest, BytesAndTimesAreTheSameWhateverTheOwnersSettings) {
  *session_ << "SET client_encoding = 'LATIN1'";
  *session_ << "SET TimeZone = 'Asia/Kathmandu'";
  const auto mine = wrap(*session_, *store_);
  soci::transaction tx(*session_);
  const Payload text = json(R"({"a":"ü 日本"})");
  const Payload raw = bytes(std::string("\0\xff", 2));
  writer_->write(*mine, odd_draft("text", text));
  writer_->write(*mine, odd_draft("raw", raw));
  tx.commit();
  expect_odd("text", text);
  expect_odd("raw", raw);
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
  EXPECT_THROW(mysql::wrap(*session_, *store_), MisuseError) << "of the other backend";
  EXPECT_THROW(wrap(*session_, *memory::open()), MisuseError);
}

}  // namespace
}  // namespace outbox::adapters
