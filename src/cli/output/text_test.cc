#include "cli/output/text.h"

#include <gtest/gtest.h>

#include "base/time_text.h"

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

TEST(Times, AreShortInTables) {
  EXPECT_EQ(short_time_text(*parse_time("2026-03-01T12:34:56.9Z")), "2026-03-01 12:34:56");
  EXPECT_EQ(age_text(5ms), "5 ms");
  EXPECT_EQ(age_text(119s), "119 s");
  EXPECT_EQ(age_text(120s), "2 min");
  EXPECT_EQ(age_text(3h), "3 h");
  EXPECT_EQ(age_text(50h), "2 d");
}

TEST(Width, CountsWhatATerminalShows) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("\xc3\xa4\xe2\x80\xa6"), 2u) << "one each";
  EXPECT_EQ(display_width("\xe4\xb8\xad\xe6\x96\x87"), 4u) << "two each";
  EXPECT_EQ(display_width("\xf0\x9f\x98\x80"), 2u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u) << "combined";
}

TEST(Width, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_width("abc", 3), "abc");
  EXPECT_EQ(cut_to_width("abcd", 3), "ab…");
  EXPECT_EQ(cut_to_width("\xe4\xb8\xad\xe6\x96\x87", 3), "\xe4\xb8\xad…");
  EXPECT_EQ(cut_to_width("\xe4\xb8\xad\xe6\x96\x87", 2), "…");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

}  // namespace
}  // namespace outbox::cli
