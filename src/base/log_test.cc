#include "outbox/log.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

std::string logged(LogLevel least, LogLevel level, std::string_view message) {
  ::testing::internal::CaptureStderr();
  standard_error_log(least)({level, "test", message});
  return ::testing::internal::GetCapturedStderr();
}

TEST(StandardErrorLog, WritesALineWithTimeAndLevel) {
  const std::string line = logged(LogLevel::warning, LogLevel::error, "no listener");
  constexpr std::string_view kTime = "2026-01-01T00:00:00.000000Z";
  ASSERT_GT(line.size(), kTime.size());
  EXPECT_EQ(line[10], 'T');
  EXPECT_EQ(line[kTime.size() - 1], 'Z');
  EXPECT_EQ(line.substr(kTime.size()), " outbox error: no listener\n");
}

TEST(StandardErrorLog, LeavesOutWhatIsLessThanWanted) {
  EXPECT_EQ(logged(LogLevel::warning, LogLevel::info, "started"), "");
  EXPECT_NE(logged(LogLevel::info, LogLevel::info, "started"), "");
  EXPECT_NE(logged(LogLevel::warning, LogLevel::warning, "slow"), "");
}

TEST(StandardErrorLog, KeepsAMessageOnOneLine) {
  const std::string line = logged(LogLevel::debug, LogLevel::debug, "a\nforged line");
  EXPECT_TRUE(line.ends_with("debug: a\\nforged line\n")) << line;
}

TEST(LogRecord, HasItsValuesAsFieldsToo) {
  const auto text = [](const LogField& field) { return std::get<std::string_view>(field.value); };
  bool logged = false;
  const Logger log = [&](const LogRecord& record) {
    EXPECT_EQ(record.level, LogLevel::error);
    EXPECT_EQ(record.code, "event_dead");
    EXPECT_EQ(record.message, "event e-1 is dead after 3 attempts");
    ASSERT_EQ(record.fields.size(), 4u);
    EXPECT_EQ(record.fields[0].name, "event");
    EXPECT_EQ(text(record.fields[0]), "e-1");
    EXPECT_EQ(std::get<std::int64_t>(record.fields[1].value), 3);
    EXPECT_EQ(std::get<double>(record.fields[2].value), 0.5);
    EXPECT_EQ(std::get<bool>(record.fields[3].value), true);
    logged = true;
  };
  const std::string id = "e-1";
  log({LogLevel::error,
       "event_dead",
       "event " + id + " is dead after " + std::to_string(3) + " attempts",
       {{"event", id}, {"attempts", 3}, {"seconds", 0.5}, {"alone", true}}});
  EXPECT_TRUE(logged);
}

TEST(LogLevel, HasNames) {
  EXPECT_EQ(to_string(LogLevel::debug), "debug");
  EXPECT_EQ(to_string(LogLevel::info), "info");
  EXPECT_EQ(to_string(LogLevel::warning), "warning");
  EXPECT_EQ(to_string(LogLevel::error), "error");
}

}  // namespace
}  // namespace outbox
