#include "cli/commands/missing_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace outbox::cli {
namespace {

using namespace std::chrono_literals;

const MissingRows::Instant kStart{};

std::vector<Seq> all(const MissingRows& missing) {
  std::vector<Seq> seqs;
  for (auto seq = missing.next(0); seq; seq = missing.next(*seq + 1)) seqs.push_back(*seq);
  return seqs;
}

TEST(MissingRows, AreTakenOnce) {
  MissingRows missing;
  missing.add(3, 6, kStart);
  missing.add(7, 7, kStart);
  missing.add(10, 9, kStart);
  EXPECT_EQ(all(missing), (std::vector<Seq>{3, 4, 5, 6, 7}));
  EXPECT_FALSE(missing.take(2));
  EXPECT_FALSE(missing.take(8));
  EXPECT_TRUE(missing.take(4));
  EXPECT_FALSE(missing.take(4));
  EXPECT_EQ(all(missing), (std::vector<Seq>{3, 5, 6, 7}));
  EXPECT_TRUE(missing.take(3));
  EXPECT_TRUE(missing.take(6));
  EXPECT_TRUE(missing.take(7));
  EXPECT_EQ(all(missing), (std::vector<Seq>{5}));
  EXPECT_TRUE(missing.take(5));
  EXPECT_FALSE(missing.next(0));
}

TEST(MissingRows, AreForgottenByTheTimeTheyWereMissed) {
  MissingRows missing;
  missing.add(1, 3, kStart);
  missing.add(5, 6, kStart + 2s);
  EXPECT_TRUE(missing.take(2));
  missing.forget(kStart + 1s);
  EXPECT_EQ(all(missing), (std::vector<Seq>{5, 6})) << "a part is as old as the whole";
  missing.forget(kStart + 2s);
  EXPECT_TRUE(all(missing).empty());
}

}  // namespace
}  // namespace outbox::cli
