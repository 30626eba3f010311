#include "workload.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace outbox::chaos {
namespace {

using harness::Told;

TEST(Attempts, GiveBackWhatWasTriedAndWhatItsWriterWasTold) {
  const auto attempts =
      parse_attempts({to_line(std::vector<std::string>{"01A", "01B"}), to_line(Told::committed),
                      to_line(std::vector<std::string>{"01C"}), to_line(Told::failed),
                      to_line(std::vector<std::string>{"01D"}), to_line(Told::unknown),
                      to_line(std::vector<std::string>{"01E"})});
  ASSERT_EQ(attempts.size(), 4u);
  EXPECT_EQ(attempts[0].ids, (std::vector<std::string>{"01A", "01B"}));
  EXPECT_EQ(attempts[0].told, Told::committed);
  EXPECT_EQ(attempts[1].told, Told::failed);
  EXPECT_EQ(attempts[2].told, Told::unknown);
  EXPECT_EQ(attempts[3].told, Told::unknown) << "whose writer died before it heard";
  EXPECT_THROW(parse_attempts({"committed"}), std::runtime_error);
  EXPECT_THROW(parse_attempts({"tries 01A ", "perhaps"}), std::runtime_error);
}

}  // namespace
}  // namespace outbox::chaos
