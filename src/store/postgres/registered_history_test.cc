#include "store/postgres/registered_history.h"

#include "outbox/error.h"
#include "store/postgres/database.h"
#include "store/postgres/sql.h"
#include "store/postgres/test_support.h"

namespace outbox::postgres {
namespace {

using PostgresHistoryTest = PostgresTest;

TEST_F(PostgresHistoryTest, AConnectionToAnotherPastIsRefusedUntilTheInstanceHasRegisteredThere) {
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  config->options.prepare = true;
  config->tells_history = true;
  RegisteredHistory registered;
  Database database(config);
  database.hold_to(registered);

  database.ensure_connected();  // nothing is registered
  const std::string here(database.run(sql::kHistory).text(0, 0));
  database.drop();
  registered.set(1, "FFFFFFFF");
  try {
    database.ensure_connected();
    ADD_FAILURE() << "connected to another past";
  } catch (const RetryableError& error) {
    EXPECT_NE(std::string(error.what()).find("timeline " + here), std::string::npos)
        << error.what();
  }
  registered.set(1, here);
  database.ensure_connected();
}

TEST_F(PostgresHistoryTest, AServerThatDoesNotTellIsTakenAsItIs) {
  const auto config = std::make_shared<StoreConfig>(test::postgres_url());
  RegisteredHistory registered;
  registered.set(1, "FFFFFFFF");
  Database database(config);
  database.hold_to(registered);
  EXPECT_TRUE(database.ensure_connected());
}

TEST(RegisteredHistoryTest, OnceARegistrationIsOverItsServerIsStillTheOnlyOne) {
  RegisteredHistory registered;
  registered.set(3, "timeline 1");
  EXPECT_EQ(registered.epoch(), 3);
  registered.end();
  EXPECT_EQ(registered.epoch(), 0);
  EXPECT_TRUE(registered.differs_from("timeline 2"));
}

}  // namespace
}  // namespace outbox::postgres
