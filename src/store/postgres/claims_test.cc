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

}  // namespace
}  // namespace outbox::postgres
