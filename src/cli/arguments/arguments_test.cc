#include "cli/arguments/arguments.h"

#include <gtest/gtest.h>

#include <sstream>

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

std::string message_of(const std::vector<std::string>& headers) {
  try {
    parse_headers(headers);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(PayloadArgument, IsTextAFileOrStandardInput) {
  std::istringstream in("from\0in", std::ios::in);
  EXPECT_EQ(read_payload("{}", in), "{}");
  EXPECT_EQ(read_payload("", in), "");
  EXPECT_EQ(read_payload("-", in), "from");
  EXPECT_THROW(read_payload("@/no/such/file", in), UsageError);
  EXPECT_THROW(read_payload("@", in), UsageError);
  EXPECT_EQ(read_payload("@/dev/null", in), "");
}

TEST(PayloadArgument, IsNotReadBeyondTheLimit) {
  std::istringstream most(std::string(kMaxPayloadBytes, 'x'));
  EXPECT_EQ(read_payload("-", most).size(), kMaxPayloadBytes);
  std::istringstream in;
  EXPECT_THROW(read_payload("@/dev/zero", in), UsageError);
}

TEST(HeaderArguments, AreKeysAndValues) {
  EXPECT_EQ(parse_headers({"a=1", "b=x=y", "c="}), (Headers{{"a", "1"}, {"b", "x=y"}, {"c", ""}}));
  EXPECT_NE(message_of({"novalue"}).find("\"novalue\""), std::string::npos);
  EXPECT_EQ(message_of({"=secret"}).find("secret"), std::string::npos);
  EXPECT_EQ(message_of({"k=secret", "k=secret"}).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace outbox::cli
