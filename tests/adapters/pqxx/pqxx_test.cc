#include "outbox/adapter/pqxx.h"

#include "adapters/adapter_test.h"
#include "outbox/memory.h"
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

class PostgresPqxxTest : public PostgresAdapterTest {
 protected:
  void SetUp() override {
    PostgresAdapterTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    connection_ = std::make_unique<pqxx::connection>(test::postgres_url());
  }

  std::unique_ptr<pqxx::connection> connection_;
};

TEST_F(PostgresPqxxTest, TheEventLivesAndDiesWithTheOwnersTransaction) {
  {
    pqxx::work tx(*connection_);
    const auto mine = wrap(tx, *store_);
    writer_->write(*mine, draft("lost"));
    tx.abort();
  }
  {
    pqxx::work tx(*connection_);
    const auto mine = wrap(tx, *store_);
    const WriteToken token = writer_->write(*mine, draft("kept"));
    EXPECT_EQ(token.ids(), std::vector<std::string>{"kept"});
    EXPECT_FALSE(store_->find("kept")) << "not committed yet";
    tx.commit();
  }
  EXPECT_FALSE(store_->find("lost"));
  EXPECT_TRUE(store_->find("kept"));
}

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
  EXPECT_FALSE(store_->find("inside"));
  EXPECT_EQ(rows(), 3);
}

TEST_F(PostgresPqxxTest, BytesAndTimesAreTheSameWhateverTheOwnersSettings) {
  const Payload payloads[] = {json(R"({"a":"ü\\ \u20ac 日本 \" {,}"})"),
                              bytes(std::string("\0\xff\x80 \\ '\"{,}", 11)), bytes("")};
  int number = 0;
  for (const char* encoding : {"UTF8", "LATIN1", "SJIS"}) {
    pqxx::work tx(*connection_);
    tx.exec("SET LOCAL client_encoding = '" + std::string(encoding) + "'");
    tx.exec("SET LOCAL TimeZone = 'Asia/Kathmandu'; SET LOCAL DateStyle = 'SQL, DMY'");
    tx.exec("SET LOCAL standard_conforming_strings = off; SET LOCAL bytea_output = 'escape'");
    const auto mine = wrap(tx, *store_);
    const int first = number;
    for (const Payload& payload : payloads) {
      writer_->write(*mine, odd_draft(std::to_string(number++), payload));
    }
    tx.commit();
    for (int i = 0; i < 3; ++i) expect_odd(std::to_string(first + i), payloads[i]);
  }
}

TEST_F(PostgresPqxxTest, ManyEventsTakeFewStatementsAndKeepTheirOrder) {
  std::vector<Draft> drafts;
  for (int i = 0; i < 1'203; ++i) drafts.push_back(draft(std::to_string(i)));
  drafts.back().deliver_after = std::chrono::hours{1};
  pqxx::work tx(*connection_);
  const auto mine = wrap(tx, *store_);
  writer_->write_all(*mine, std::move(drafts));
  EXPECT_THROW(mine->execute("SELECT 1", {}), MisuseError) << "pqxx does that";
  tx.commit();
  EXPECT_EQ(rows(), 1203);
  EXPECT_EQ(store_->list({}, 0, 3).at(2).row.event.id(), "2");
  EXPECT_LT(store_->find("1202")->hold, 0);
  EXPECT_EQ(store_->find("1201")->hold, 0);
}

TEST_F(PostgresPqxxTest, TheAddressesAreThoseOfTheRowsAndClaimsAreKept) {
  const Event events[] = {make_event(draft("1")), make_event(draft("2"))};
  pqxx::work tx(*connection_);
  const auto refs = wrap(tx, *store_)->insert(events, {.owner = "mé"});
  tx.commit();
  for (std::size_t i = 0; i < 2; ++i) {
    const auto found = store_->find(events[i].id());
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

TEST_F(PostgresPqxxTest, AnotherStoreIsRefused) {
  pqxx::work tx(*connection_);
  EXPECT_THROW(wrap(tx, *memory::open()), MisuseError);
}

}  // namespace
}  // namespace outbox::adapters
