// Where the servers of scripts/services are, as the environment says.
#pragma once

#include <optional>
#include <string>

namespace outbox::test {

// Of the form scheme://user@127.0.0.1:port/outbox. Throw std::runtime_error where
// there is no such server.
std::string postgres_url();   // OUTBOX_TEST_POSTGRES
std::string pgbouncer_url();  // OUTBOX_TEST_PGBOUNCER: the same server, pool_mode = transaction
std::string mysql_url();      // OUTBOX_TEST_MYSQL: MariaDB or MySQL
std::string redis_url();      // OUTBOX_TEST_REDIS: its database is 0

// What is wrong and what to do if the variable names no server; nullopt if it does.
std::optional<std::string> missing_service(const char* variable);

// Whether a test must fail instead of being skipped then: where all tests are
// to run, OUTBOX_TEST_REQUIRE_SERVICES=1 is set, so that none is left out in silence.
bool services_required();

// Of a URL of the form above.
int port_of(const std::string& url);
std::string with_port(const std::string& url, int port);

// A server for one test alone, which it may stop and kill: started by scripts/services under a name
// of its own, and stopped with it. Not thread-safe.
class OwnServer {
 public:
  // As scripts/services calls it: "postgres", "mariadb" or "redis", and further options of
  // its `start`. Throws std::runtime_error if the script fails; it says why.
  explicit OwnServer(std::string service, const std::string& options = "");
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& url() const { return url_; }

  // In good order, or after kill -9. Waits until it is back.
  void restart(bool in_good_order);

 private:
  void run(const std::string& command, const std::string& options = "") const;

  const std::string service_;
  const std::string name_;  // the tests run side by side
  std::string url_;
};

}  // namespace outbox::test

// Leaves out a googletest test, or its SetUp(), where the server is missing.
#define OUTBOX_NEEDS_SERVICE(variable)                                    \
  do {                                                                    \
    if (const auto problem = ::outbox::test::missing_service(variable)) { \
      if (::outbox::test::services_required()) FAIL() << *problem;        \
      GTEST_SKIP() << *problem;                                           \
    }                                                                     \
  } while (false)
#define OUTBOX_NEEDS_POSTGRES() OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_POSTGRES")
#define OUTBOX_NEEDS_PGBOUNCER() OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_PGBOUNCER")
#define OUTBOX_NEEDS_MYSQL() OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_MYSQL")
#define OUTBOX_NEEDS_REDIS() OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_REDIS")
