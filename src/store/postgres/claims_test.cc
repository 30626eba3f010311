#include <future>
#include <set>
#include <vector>

#include "outbox/outbox.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using PostgresClaimsTest = PostgresTest;

// Polls without a pause claim retries before the engine hears that their updates landed.
// Such a claim was nobody's, and the event waited until it expired.
TEST_F(PostgresClaimsTest, ARetryThatIsClaimedBeforeItsMarkIsKnownDoesNotWaitForTheLockToExpire) {
  const auto listener =
      std::make_shared<testing::RecordingListener>([](const Event&, const Delivery& delivery) {
        if (delivery.attempt < 4) throw RetryAfterError("not yet", 1ms);
        return Outcome::done();
      });
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  outbox::Options options{
      .mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true, .log = log_.log()};
  options.poll_interval = 1ms;
  const auto store = open_store();
  Outbox box(store, listeners, std::move(options));
  box.start();
  for (int i = 0; i < 50; ++i) write_event(*store, simple_event(std::to_string(i)));
  EXPECT_TRUE(box.wait_idle(60s));
  EXPECT_EQ(listener->count(), 200U);
}

// Rule 26: the first one has locked its rows and changed one of them when it is held up.
TEST_F(PostgresClaimsTest, AClaimerInTheMiddleOfItsClaimBlocksNoOther) {
  const auto store = open_store();
  for (int i = 0; i < 20; ++i) write_event(*store, simple_event(std::to_string(i)));
  const std::string key = "hashtext('" + schema() + "')";
  sql().execute("CREATE SEQUENCE " + schema() + ".changes; CREATE FUNCTION " + schema() +
                ".wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('" + schema() +
                ".changes') = 1 THEN PERFORM pg_advisory_xact_lock(" + key +
                "); END IF; RETURN NEW; END $$; CREATE TRIGGER wait BEFORE UPDATE ON " + table() +
                " FOR EACH ROW EXECUTE FUNCTION " + schema() + ".wait()");
  const auto join = [&] {
    auto claimer = store->join({.row_claims = true});
    EXPECT_NE(claimer->renew().epoch, 0);
    return claimer;
  };
  const auto first = join();
  const auto second = join();
  constexpr std::size_t kHalf = 10;
  const auto claim = [](Instance& claimer) {
    return std::async(std::launch::async, [&] { return ids(claimer.claim(0ms, kHalf).rows); });
  };
  test::Sql holder;
  holder.execute("BEGIN; SELECT pg_advisory_xact_lock(" + key + ")");
  auto held_up = claim(*first);
  ASSERT_TRUE(eventually([&] { return test::is_waited_for(sql(), holder); }));
  auto other = claim(*second);
  EXPECT_EQ(other.wait_for(20s), std::future_status::ready) << "it waits for the first one's locks";
  EXPECT_EQ(held_up.wait_for(0s), std::future_status::timeout);
  holder.execute("COMMIT");
  const std::vector<std::string> of_first = held_up.get();
  const std::vector<std::string> of_second = other.get();
  EXPECT_EQ(of_first.size(), kHalf);
  EXPECT_EQ(of_second.size(), kHalf);
  std::set<std::string> all(of_first.begin(), of_first.end());
  all.insert(of_second.begin(), of_second.end());
  EXPECT_EQ(all.size(), 2 * kHalf) << "a row was claimed twice";
}

}  // namespace
}  // namespace outbox::postgres
