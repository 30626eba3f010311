#include "model/registration.h"
#include "outbox/error.h"
#include "store/postgres/sql.h"
#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using PostgresHistoryTest = PostgresTest;

TEST_F(PostgresHistoryTest, AConnectionToAnotherPastIsRefusedUntilTheInstanceHasRegisteredThere) {
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  config->options.prepare = true;
  config->tells_history = true;
  Registration registered;
  Database database(config);
  database.hold_to(registered);

  database.ensure_connected();  // nothing is registered
  const std::string here(database.run(kTimeline).text(0, 0));
  database.drop();
  registered.set(1, "me", "FFFFFFFF");
  try {
    database.ensure_connected();
    ADD_FAILURE() << "connected to another past";
  } catch (const RetryableError& error) {
    EXPECT_NE(std::string(error.what()).find("timeline " + here), std::string::npos)
        << error.what();
  }
  registered.set(1, "me", here);
  database.ensure_connected();
}

TEST_F(PostgresHistoryTest, AServerThatDoesNotTellIsTakenAsItIs) {
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  Registration registered;
  registered.set(1, "me", "FFFFFFFF");
  Database database(config);
  database.hold_to(registered);
  EXPECT_TRUE(database.ensure_connected());
}

TEST(RegisteredHistoryTest, OnceARegistrationIsOverItsServerIsStillTheOnlyOne) {
  Registration registered;
  registered.set(3, "me", "timeline 1");
  EXPECT_EQ(registered.epoch(), 3);
  registered.end();
  EXPECT_EQ(registered.epoch(), 0);
  EXPECT_TRUE(registered.is_elsewhere("timeline 2"));
}

}  // namespace
}  // namespace outbox::postgres
