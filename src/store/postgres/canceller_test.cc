#include "client/postgres/canceller.h"

#include "store/postgres/store_config.h"
#include "store/postgres/test_support.h"
#include "support/tcp_proxy.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

class PostgresCancellerTest : public PostgresTest {
 protected:
  // A connection on which the server has no limits of its own.
  static std::unique_ptr<Database> connect(const std::string& url) {
    const auto config = std::make_shared<StoreConfig>(url);
    config->options.prepare = true;
    auto database = std::make_unique<Database>(config, Use::users);
    database->limit_calls(2s);
    database->ensure_connected();
    return database;
  }

  bool runs(int backend) {
    return sql().value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid = " +
                       std::to_string(backend)) != "0";
  }
};

TEST_F(PostgresCancellerTest, TheServerIsToldOfACallThatIsGivenUp) {
  const auto database = connect(test::postgres_url());
  const int backend = PQbackendPID(database->handle());
  EXPECT_THROW(database->session().run_script("SELECT pg_sleep(60)", "sleep"), RetryableError);
  EXPECT_TRUE(runs(backend));
  database->drop();
  EXPECT_TRUE(eventually([&] { return !runs(backend); }));
  EXPECT_NO_THROW(database->session().run_script("SELECT 1", "go on"));
}

TEST_F(PostgresCancellerTest, ThePoolerIsToldAsWell) {
  OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_PGBOUNCER");
  const auto database = connect(test::pgbouncer_url());
  const std::string tag = "/* " + schema() + " */";
  EXPECT_THROW(database->session().run_script("SELECT pg_sleep(60) " + tag, "sleep"),
               RetryableError);
  database->drop();
  EXPECT_TRUE(eventually([&] {
    return sql().value(
               "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query "
               "LIKE 'SELECT pg_sleep%" +
               schema() + "%'") == "0";
  }));
}

TEST_F(PostgresCancellerTest, ACallThatNobodyReadsIsGivenUpThoughItIsLarge) {
  test::TcpProxy proxy("127.0.0.1", test::port_of(test::postgres_url()));
  const auto database = connect(test::with_port(test::postgres_url(), proxy.port()));
  proxy.stall();
  const auto begin = steady_clock::now();
  const std::string large = "SELECT '" + std::string(16'000'000, 'x') + "'";
  EXPECT_THROW(database->session().run_script(large, "send much"), RetryableError);
  database->drop();  // does not wait for anybody either
  EXPECT_LT(steady_clock::now() - begin, 10s);
  proxy.cut();
  proxy.resume();
  EXPECT_NO_THROW(database->session().run_script("SELECT 1", "go on"));
}

}  // namespace
}  // namespace outbox::postgres
