#include "outbox/log.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

std::string logged(LogLevel least, LogLevel level, std::string_view message) {
  ::testing::internal::CaptureStderr();
  standard_error_log(least)(level, message);
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

TEST(LogLevel, HasNames) {
  EXPECT_EQ(to_string(LogLevel::debug), "debug");
  EXPECT_EQ(to_string(LogLevel::info), "info");
  EXPECT_EQ(to_string(LogLevel::warning), "warning");
  EXPECT_EQ(to_string(LogLevel::error), "error");
}

}  // namespace
}  // namespace outbox
