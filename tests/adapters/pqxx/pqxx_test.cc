#include "outbox/adapter/pqxx.h"

#include "adapters/adapter_test.h"
#include "support/tcp_proxy.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define OUTBOX_TEST_LEAKS
#endif
#endif

namespace outbox::adapters {
namespace {

// libpqxx 6.4 never frees the result of a statement that lost its connection: leaks of this
// thread are not counted meanwhile.
class LossyStatement {
#ifdef OUTBOX_TEST_LEAKS
  __lsan::ScopedDisabler disabler_;
#endif
 public:
  LossyStatement() {}
};

class PqxxOwner final : public Owner {
 public:
  void begin() override { tx_ = std::make_unique<pqxx::work>(connection_); }
  void commit() override {
    tx_->commit();
    tx_.reset();
  }
  void rollback() override { tx_.reset(); }
  void run(const std::string& sql) override { tx_->exec(sql); }
  std::unique_ptr<Connection> wrap(Store& store) override { return outbox::wrap(*tx_, store); }
  bool sees_transaction() const override { return false; }

 private:
  pqxx::connection connection_{test::postgres_url()};
  std::unique_ptr<pqxx::work> tx_;
};

INSTANTIATE_TEST_SUITE_P(PostgresPqxx, AdapterSuite,
                         ::testing::Values(Library{Dialect::postgres, [](const Place&) {
                                                     return std::make_unique<PqxxOwner>();
                                                   }}));

class PostgresPqxxTest : public PostgresAdapterTest {
 protected:
  void SetUp() override {
    PostgresAdapterTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    connection_ = std::make_unique<pqxx::connection>(test::postgres_url());
  }

  std::unique_ptr<pqxx::connection> connection_;
};

TEST_F(PostgresPqxxTest, OutsideATransactionItFailsAtOnce) {
  pqxx::nontransaction each(*connection_);
  EXPECT_THROW(wrap(each, *store_), MisuseError);
  each.commit();
  pqxx::work tx(*connection_);
  const auto mine = wrap(tx, *store_);
  writer_->write(*mine, draft("kept"));
  tx.commit();
  EXPECT_THROW(writer_->write(*mine, draft("late")), MisuseError);
  EXPECT_EQ(rows(), 1);
}

TEST_F(PostgresPqxxTest, AnEventInAnAbortedSubtransactionIsGoneAndTheOthersStay) {
  pqxx::work tx(*connection_);
  const auto outer = wrap(tx, *store_);
  writer_->write(*outer, draft("before"));
  {
    pqxx::subtransaction part(tx, "part");
    const auto inner = wrap(part, *store_);
    writer_->write(*inner, draft("inside"));
    part.abort();
  }
  {
    pqxx::subtransaction part(tx, "another");
    const auto inner = wrap(part, *store_);
    writer_->write(*inner, draft("second"));
    part.commit();
  }
  writer_->write(*outer, draft("after"));
  tx.commit();
  EXPECT_FALSE(store_->admin().find("inside"));
  EXPECT_EQ(rows(), 3);
}

TEST_F(PostgresPqxxTest, TheAddressesAreThoseOfTheRowsAndClaimsAreKept) {
  const Event events[] = {make_event(draft("1")), make_event(draft("2"))};
  pqxx::work tx(*connection_);
  const auto refs = wrap(tx, *store_)->insert(events, {.owner = "mé"});
  tx.commit();
  for (std::size_t i = 0; i < 2; ++i) {
    const auto found = store_->admin().find(events[i].id());
    EXPECT_EQ(found->row.ref.seq, refs.at(i).seq);
    EXPECT_EQ(found->row.ref.shard, refs.at(i).shard);
    EXPECT_EQ(found->locked_by, "mé");
  }
}

TEST_F(PostgresPqxxTest, AnIdThatIsTakenIsPqxxsOwnError) {
  pqxx::work tx(*connection_);
  const auto mine = wrap(tx, *store_);
  writer_->write(*mine, draft("taken"));
  {
    pqxx::subtransaction part(tx, "part");
    EXPECT_THROW(writer_->write(*wrap(part, *store_), draft("taken")), pqxx::unique_violation);
    part.abort();
  }
  tx.commit();
  EXPECT_EQ(rows(), 1);
}

TEST_F(PostgresPqxxTest, ALostCommitIsInDoubtAndALostTransactionIsNot) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const std::string far = test::with_port(test::postgres_url(), proxy.port());
  {
    pqxx::connection lossy(far);
    pqxx::work tx(lossy);
    writer_->write(*wrap(tx, *store_), draft("unknown"));
    proxy.drop_reply("COMMIT");
    const LossyStatement commit;
    EXPECT_THROW(tx.commit(), pqxx::in_doubt_error);
  }
  EXPECT_EQ(rows(), 1);
  pqxx::connection lossy(far);
  pqxx::work tx(lossy);
  writer_->write(*wrap(tx, *store_), draft("lost"));
  proxy.cut();
  const LossyStatement insert;
  EXPECT_THROW(writer_->write(*wrap(tx, *store_), draft("more")), pqxx::broken_connection);
}

}  // namespace
}  // namespace outbox::adapters
