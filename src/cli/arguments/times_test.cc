#include "cli/arguments/times.h"

#include <gtest/gtest.h>

#include "base/time_text.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

using namespace std::chrono_literals;

TEST(Durations, AreNumbersWithUnits) {
  EXPECT_EQ(parse_duration("0s"), 0s);
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("90s"), 90s);
  EXPECT_EQ(parse_duration("15m"), 15min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  EXPECT_EQ(parse_duration("7d"), 168h);
  EXPECT_EQ(parse_duration("1w"), 168h);
  EXPECT_EQ(parse_duration("1h30m"), 90min);
  for (const char* bad : {"", "2", "h", "-1h", "+1h", "1 h", "1.5h", "1y", "1H", "1h2", "h1",
                          "99999999999999999999s", "9223372036854775807w", "366001d", "1d "}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(Times, AreRfc3339OrADay) {
  const auto text = [](const char* argument) {
    const auto time = parse_time(argument);
    return time ? time_text(*time) : "none";
  };
  EXPECT_EQ(text("2026-03-01T12:34:56Z"), "2026-03-01T12:34:56.000000Z");
  EXPECT_EQ(text("2026-03-01 12:34:56z"), "2026-03-01T12:34:56.000000Z");
  EXPECT_EQ(text("2026-03-01T12:34:56.123456789Z"), "2026-03-01T12:34:56.123456Z");
  EXPECT_EQ(text("2026-03-01T00:30:00+01:00"), "2026-02-28T23:30:00.000000Z");
  EXPECT_EQ(text("2026-03-01T00:30:00.5-01:30"), "2026-03-01T02:00:00.500000Z");
  EXPECT_EQ(text("2024-02-29"), "2024-02-29T00:00:00.000000Z");
  for (const char* bad :
       {"", "now", "2026", "2026-13-01", "2026-02-29", "2026-3-1", "2026-03-01T",
        "2026-03-01T12:00", "2026-03-01T12:00:00", "2026-03-01T24:00:00Z", "2026-03-01T12:60:00Z",
        "2026-03-01T12:00:61Z", "2026-03-01T12:00:00.Z", "2026-03-01T12:00:00+1",
        "2026-03-01T12:00:00+24:00", "2026-03-01T12:00:00Zx", "0999-01-01", "x026-03-01"}) {
    EXPECT_EQ(text(bad), "none") << bad;
  }
}

TEST(Times, MayBeCountedBackFromNow) {
  const Time now = *parse_time("2026-03-01T12:00:00Z");
  EXPECT_EQ(past_time("--since", "2h", now), now - 2h);
  EXPECT_EQ(past_time("--since", "2026-03-01", now), now - 12h);
  try {
    past_time("--since", "tomorrow", now);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("--since: \"tomorrow\""), std::string::npos);
  }
  EXPECT_THROW(past_time("--since", "365000d400000d", now), UsageError);
  EXPECT_THROW(duration_argument("--x", "2026-03-01"), UsageError);
  EXPECT_THROW(time_argument("--x", "2h"), UsageError);
}

TEST(Times, AreShortInTables) {
  EXPECT_EQ(short_time_text(*parse_time("2026-03-01T12:34:56.9Z")), "2026-03-01 12:34:56");
  EXPECT_EQ(age_text(5ms), "5 ms");
  EXPECT_EQ(age_text(119s), "119 s");
  EXPECT_EQ(age_text(120s), "2 min");
  EXPECT_EQ(age_text(3h), "3 h");
  EXPECT_EQ(age_text(50h), "2 d");
}

}  // namespace
}  // namespace outbox::cli
