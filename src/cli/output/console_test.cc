#include "cli/output/console.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/errors.h"

namespace outbox::cli {
namespace {

using namespace std::chrono_literals;

TEST(ProgressLine, SaysHowFarAndHowLongStill) {
  EXPECT_EQ(progress_line("replaying", 0, 2'000, 0s, 99),
            "replaying [--------------------]  0 of 2,000  0%");
  EXPECT_EQ(progress_line("replaying", 500, 2'000, 5s, 99),
            "replaying [#####---------------]  500 of 2,000  25%  100 a second  15 s left");
  EXPECT_EQ(progress_line("replaying", 2'000, 2'000, 5s, 99),
            "replaying [####################]  2,000 of 2,000  100%  400 a second");
  EXPECT_EQ(progress_line("purging", 7, {}, 0s, 99), "purging  7");
}

TEST(ProgressLine, CopesWithMoreThanItWasToldOf) {
  EXPECT_EQ(progress_line("x", 3, 2, 0s, 99), "x [####################]  3 of 3  100%");
  EXPECT_EQ(progress_line("x", 0, 0, 0s, 99), "x [--------------------]  0 of 0  100%");
  EXPECT_EQ(progress_line("replaying", 1, 2, 0s, 12), "replaying [#");
}

TEST(ProgressTest, DrawsNowAndThenAndCleansUp) {
  std::ostringstream out;
  auto now = std::chrono::steady_clock::now();
  {
    Progress progress(out, 80, "x", 4, [&] { return now; });
    progress.update(1);
    progress.update(2);
    now += 100ms;
    progress.update(3);
  }
  EXPECT_EQ(out.str(),
            "\rx [#####---------------]  1 of 4  25%\x1b[K"
            "\rx [###############-----]  3 of 4  75%\x1b[K"
            "\r\x1b[K");
}

TEST(ProgressTest, IsSilentWithoutATerminal) {
  std::ostringstream out;
  Progress(out, std::nullopt, "x", 4).update(1);
  EXPECT_EQ(out.str(), "");
}

class ConfirmTest : public ::testing::Test {
 protected:
  bool ask(const std::string& answer, bool yes = false, bool can_ask = true) {
    std::istringstream in(answer);
    std::ostringstream out;
    const Console console{.in = in, .out = out, .err = err_, .can_ask = can_ask};
    return console.confirm("Really?", yes);
  }
  std::ostringstream err_;
};

TEST_F(ConfirmTest, OnlyAYesIsAYes) {
  for (const char* yes : {"y\n", "yes\n", "Y\n", "Yes\n"}) EXPECT_TRUE(ask(yes)) << yes;
  for (const char* no : {"", "\n", "n\n", "yep\n", "no\n", " y\n"}) EXPECT_FALSE(ask(no)) << no;
  EXPECT_TRUE(err_.str().starts_with("Really? [y/N] "));
}

TEST_F(ConfirmTest, DoesNotAskIfItWasSaidOrNobodyIsThere) {
  EXPECT_TRUE(ask("", true));
  EXPECT_TRUE(ask("", true, false));
  EXPECT_EQ(err_.str(), "");
  EXPECT_THROW(ask("y\n", false, false), UsageError);
}

}  // namespace
}  // namespace outbox::cli
