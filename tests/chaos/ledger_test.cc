#include "ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "support/temporary_directory.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

const Arrival kArrival{.id = "01A",
                       .aggregate = "a7",
                       .number = 42,
                       .epoch = 3,
                       .process = 5,
                       .attempt = 2,
                       .at = 123456789};

TEST(Ledger, GivesBackWhatWasWritten) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger");
  Ledger(path).append(to_line(kArrival));
  Ledger(path).append(to_line(Arrival{.id = "01B"}));
  const auto arrivals = read_ledger(path);
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(to_line(arrivals[0]), to_line(kArrival));
  EXPECT_EQ(arrivals[1].id, "01B");
  EXPECT_EQ(arrivals[1].aggregate, "");
}

TEST(Ledger, CutsALineThatADeathLeftTorn) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger");
  std::ofstream(path) << to_line(kArrival) << "\n01B torn";
  EXPECT_EQ(read_ledger(path).size(), 1u);
  Ledger(path).append(to_line(Arrival{.id = "01C"}));
  const auto arrivals = read_ledger(path);
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[1].id, "01C");
}

TEST(Ledger, RefusesALineThatIsNoArrival) {
  EXPECT_THROW(parse_line(""), std::runtime_error);
  EXPECT_THROW(parse_line("01A a7 many 3 5 2 1"), std::runtime_error);
  EXPECT_THROW(parse_line(to_line(kArrival) + " more"), std::runtime_error);
}

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

TEST(Ledger, IsEmptyWhereThereIsNoFile) {
  const test::TemporaryDirectory directory;
  EXPECT_TRUE(read_ledger(directory.file("ledger")).empty());
}

}  // namespace
}  // namespace outbox::chaos
