#include "cli/demo/report.h"

#include <gtest/gtest.h>

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;
using Kind = Report::Kind;

TEST(Report, ComesOutAsItWentIn) {
  for (const Report& report :
       {Report{.kind = Kind::ready}, Report{.kind = Kind::committed, .id = "a", .at = Moment{12us}},
        Report{.kind = Kind::rolled_back, .id = "b"},
        Report{.kind = Kind::received, .id = "c", .at = Moment{13us}},
        Report{.kind = Kind::duplicate, .id = "c", .at = Moment{14us}},
        Report{.kind = Kind::log, .text = "some words"}}) {
    EXPECT_EQ(Report::parse(report.line()), report) << report.line();
  }
}

TEST(Report, TakesForeignLinesForTheLog) {
  for (const char* line : {"", "terminate called", "@committed a b", "@received"}) {
    EXPECT_EQ(Report::parse(line), (Report{.kind = Kind::log, .text = line}));
  }
}

const Moment kNow{1h};

TEST(Stats, CountsAndMeasuresFromCommitToReceipt) {
  Stats stats;
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow});
  stats.add({.kind = Kind::committed, .id = "b", .at = kNow});
  stats.add({.kind = Kind::rolled_back, .id = "c"});
  stats.add({.kind = Kind::received, .id = "a", .at = kNow + 700us});
  const Figures figures = stats.figures(kNow + 1ms);
  EXPECT_EQ(figures.committed, 2);
  EXPECT_EQ(figures.rolled_back, 1);
  EXPECT_EQ(figures.delivered, 1);
  EXPECT_EQ(figures.pending, 1);
  EXPECT_EQ(figures.commit_rate, 2);
  EXPECT_EQ(figures.delivery_rate, 1);
  EXPECT_EQ(figures.p50, 700us);
}

TEST(Stats, TakesAReceiptThatIsReportedBeforeItsCommit) {
  Stats stats;
  stats.add({.kind = Kind::received, .id = "a", .at = kNow});
  EXPECT_EQ(stats.figures(kNow).delivered, 0);
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow + 5us});
  const Figures figures = stats.figures(kNow);
  EXPECT_EQ(figures.delivered, 1);
  EXPECT_EQ(figures.pending, 0);
  EXPECT_EQ(figures.p50, 0us);
}

TEST(Stats, KnowsADeliveryWhoseFirstReportDiedWithTheReceiver) {
  Stats stats;
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow});
  stats.add({.kind = Kind::duplicate, .id = "a", .at = kNow + 1s});
  EXPECT_EQ(stats.figures(kNow).delivered, 1);
  EXPECT_EQ(stats.figures(kNow).duplicates, 1);
  stats.add({.kind = Kind::duplicate, .id = "a", .at = kNow + 2s});
  EXPECT_EQ(stats.figures(kNow).delivered, 1);
  EXPECT_EQ(stats.figures(kNow).duplicates, 2);
}

TEST(Stats, ForgetsOldRatesAndLatencies) {
  Stats stats;
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow});
  stats.add({.kind = Kind::received, .id = "a", .at = kNow});
  const Figures figures = stats.figures(kNow + 10s);
  EXPECT_EQ(figures.commit_rate, 0);
  EXPECT_EQ(figures.delivery_rate, 0);
  EXPECT_EQ(figures.p50, std::nullopt);
  EXPECT_EQ(figures.delivered, 1);
}

}  // namespace
}  // namespace outbox::demo
