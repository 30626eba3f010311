#include "support/services.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace outbox::test {
namespace {

constexpr const char* kVariable = "OUTBOX_TEST_NO_SUCH_SERVICE";

TEST(Services, AMissingOneNamesTheVariableAndTheScript) {
  const auto problem = missing_service(kVariable);
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find(kVariable), std::string::npos) << *problem;
  EXPECT_NE(problem->find("scripts/services start"), std::string::npos) << *problem;
}

TEST(Services, AnEmptyVariableIsAMissingService) {
  setenv(kVariable, "", 1);
  EXPECT_TRUE(missing_service(kVariable));
  setenv(kVariable, "postgresql://127.0.0.1:1/x", 1);
  EXPECT_FALSE(missing_service(kVariable));
  unsetenv(kVariable);
}

bool reached_the_end = false;
void needs_what_is_missing() {
  OUTBOX_NEEDS_SERVICE(kVariable);
  reached_the_end = true;
}

TEST(Services, AMissingOneFailsTheTestWhereAllAreRequired) {
  setenv("OUTBOX_TEST_REQUIRE_SERVICES", "1", 1);
  EXPECT_FATAL_FAILURE(needs_what_is_missing(), "scripts/services start");
  EXPECT_FALSE(reached_the_end);
}

TEST(Services, AMissingOneSkipsTheTestWhereNoneIsRequired) {
  unsetenv("OUTBOX_TEST_REQUIRE_SERVICES");
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    needs_what_is_missing();
  }
  EXPECT_FALSE(reached_the_end);
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(results.GetTestPartResult(0).skipped());
}

TEST(Services, PortsOfUrls) {
  EXPECT_EQ(port_of("postgresql://u@127.0.0.1:5432/outbox"), 5432);
  EXPECT_EQ(port_of("postgresql://127.0.0.1:80"), 80);
  EXPECT_EQ(with_port("postgresql://u:p@127.0.0.1:5432/outbox?a=b:c", 7),
            "postgresql://u:p@127.0.0.1:7/outbox?a=b:c");
  EXPECT_THROW(port_of("postgresql://u:p@127.0.0.1/outbox"), std::runtime_error);
  EXPECT_THROW(port_of("postgresql://127.0.0.1:/outbox"), std::runtime_error);
  EXPECT_THROW(port_of("127.0.0.1:5432"), std::runtime_error);
}

}  // namespace
}  // namespace outbox::test
