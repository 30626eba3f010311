#include "cli/output/figures.h"

#include <gtest/gtest.h>

namespace outbox::cli {
namespace {

using namespace std::chrono_literals;

TEST(Figures, AreGroupedByThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
  EXPECT_EQ(grouped(-1'234), "-1,234");
}

TEST(Figures, GiveTimesTheUnitThatKeepsThemShort) {
  EXPECT_EQ(short_time(850us), "850 us");
  EXPECT_EQ(short_time(1'449us), "1.4 ms");
  EXPECT_EQ(short_time(23'400us), "23 ms");
  EXPECT_EQ(short_time(999'600us), "1.0 s");
  EXPECT_EQ(short_time(12s), "12 s");
}

TEST(Percentile, IsTheLeastValueThatSoManyDoNotExceed) {
  std::vector<std::chrono::microseconds> values;
  for (int n = 100; n >= 1; --n) values.emplace_back(n);
  EXPECT_EQ(percentile(values, 50), 50us);
  EXPECT_EQ(percentile(values, 99), 99us);
  EXPECT_EQ(percentile(values, 100), 100us);
}

TEST(Percentile, OfOneValueIsThatValue) {
  EXPECT_EQ(percentile({7us}, 50), 7us);
  EXPECT_EQ(percentile({7us}, 99), 7us);
}

TEST(Percentile, OfNothingIsNothing) { EXPECT_EQ(percentile({}, 50), std::nullopt); }

}  // namespace
}  // namespace outbox::cli
