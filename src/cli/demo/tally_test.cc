#include "cli/demo/tally.h"

#include <gtest/gtest.h>

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;
using Kind = Report::Kind;

const Moment kNow{1h};

TEST(Tally, CountsAndMeasuresFromCommitToReceipt) {
  Tally tally;
  tally.add({.kind = Kind::committed, .id = "a", .at = kNow});
  tally.add({.kind = Kind::committed, .id = "b", .at = kNow});
  tally.add({.kind = Kind::rolled_back, .id = "c"});
  tally.add({.kind = Kind::received, .id = "a", .at = kNow + 700us});
  const Figures figures = tally.figures(kNow + 1ms);
  EXPECT_EQ(figures.committed, 2);
  EXPECT_EQ(figures.rolled_back, 1);
  EXPECT_EQ(figures.delivered, 1);
  EXPECT_EQ(figures.pending, 1);
  EXPECT_EQ(figures.commit_rate, 2);
  EXPECT_EQ(figures.delivery_rate, 1);
  EXPECT_EQ(figures.p50, 700us);
}

TEST(Tally, TakesAReceiptThatIsReportedBeforeItsCommit) {
  Tally tally;
  tally.add({.kind = Kind::received, .id = "a", .at = kNow});
  EXPECT_EQ(tally.figures(kNow).delivered, 0);
  tally.add({.kind = Kind::committed, .id = "a", .at = kNow + 5us});
  const Figures figures = tally.figures(kNow);
  EXPECT_EQ(figures.delivered, 1);
  EXPECT_EQ(figures.pending, 0);
  EXPECT_EQ(figures.p50, 0us);
}

TEST(Tally, KnowsADeliveryWhoseFirstReportDiedWithTheReceiver) {
  Tally tally;
  tally.add({.kind = Kind::committed, .id = "a", .at = kNow});
  tally.add({.kind = Kind::duplicate, .id = "a", .at = kNow + 1s});
  EXPECT_EQ(tally.figures(kNow).delivered, 1);
  EXPECT_EQ(tally.figures(kNow).duplicates, 1);
  tally.add({.kind = Kind::duplicate, .id = "a", .at = kNow + 2s});
  EXPECT_EQ(tally.figures(kNow).delivered, 1);
  EXPECT_EQ(tally.figures(kNow).duplicates, 2);
}

TEST(Tally, ForgetsOldRatesAndLatencies) {
  Tally tally;
  tally.add({.kind = Kind::committed, .id = "a", .at = kNow});
  tally.add({.kind = Kind::received, .id = "a", .at = kNow});
  const Figures figures = tally.figures(kNow + 10s);
  EXPECT_EQ(figures.commit_rate, 0);
  EXPECT_EQ(figures.delivery_rate, 0);
  EXPECT_EQ(figures.p50, std::nullopt);
  EXPECT_EQ(figures.delivered, 1);
}

}  // namespace
}  // namespace outbox::demo
