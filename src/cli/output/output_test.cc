#include <gtest/gtest.h>

#include <sstream>

#include "base/json.h"
#include "base/time_text.h"
#include "cli/errors.h"
#include "cli/output/console.h"
#include "cli/output/text.h"

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

TEST(JsonOutput, StringsAreEscapedAndValid) {
  EXPECT_EQ(json_string("a\"b\\c\n\r\t"), R"("a\"b\\c\n\r\t")");
  EXPECT_EQ(json_string(std::string("\0\x1b\x7f", 3)), R"("\u0000\u001b\u007f")");
  EXPECT_EQ(json_string("\xc3\xa4"), "\"\xc3\xa4\"");
  EXPECT_EQ(json_string("a\xff"
                        "b\xc3"),
            "\"a\xef\xbf\xbd"
            "b\xef\xbf\xbd\"");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_FALSE(check_json(json_string(std::string(1, static_cast<char>(byte))))) << byte;
  }
}

// It may end on somebody's terminal.
TEST(JsonOutput, WhatCommandsATerminalIsEscapedThoughJsonAllowsIt) {
  EXPECT_EQ(json_string("\xc2\x9b"
                        "31m\xc2\x85"),
            R"("\u009b31m\u0085")");
  EXPECT_EQ(json_string("a\u202egnp.exe\u2066\u2028"), R"("a\u202egnp.exe\u2066\u2028")");
  EXPECT_FALSE(check_json(json_string("\u202e\xc2\x9b")));
}

TEST(JsonOutput, BytesAreBase64) {
  // RFC 4648, section 10.
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(JsonOutput, ObjectsKeepTheOrderOfTheirMembers) {
  EXPECT_EQ(JsonObject{}.text(), "{}");
  const JsonObject inner = JsonObject{}.add("x", true);
  const JsonObject object = JsonObject{}
                                .add("z", "text")
                                .add("number", std::int64_t{-7})
                                .add("inner", inner)
                                .add("list", std::vector<JsonObject>{inner, JsonObject{}})
                                .add("numbers", std::vector<int>{1, 2})
                                .add("time", Time{})
                                .add("no_time", std::optional<Time>{})
                                .add("no_number", std::optional<std::int64_t>{})
                                .add_or_null("absent", "")
                                .add_or_null("present", "p");
  EXPECT_EQ(object.text(),
            R"({"z":"text","number":-7,"inner":{"x":true},"list":[{"x":true},{}],"numbers":[1,2],)"
            R"("time":"1970-01-01T00:00:00.000000Z","no_time":null,"no_number":null,)"
            R"("absent":null,"present":"p"})");
  EXPECT_FALSE(check_json(object.text()));
}

std::string text_of(const Table& table, const TableLook& look = {}) {
  std::ostringstream out;
  table.print(out, look);
  return out.str();
}

Table sample() {
  Table table(
      {{.title = "N", .right = true}, {.title = "NAME", .shrinks = true}, {.title = "END"}});
  table.add({std::string("1"), std::string("short"), std::string()});
  table.add({std::string("1000"), std::string("a long name"), std::string("x")});
  return table;
}

TEST(TableTest, AlignsColumnsWithoutBlanksAtTheEnd) {
  EXPECT_EQ(text_of(sample()),
            "   N  NAME         END\n"
            "   1  short\n"
            "1000  a long name  x\n");
}

TEST(TableTest, CutsWhatMayShrinkWhereThereIsNoRoom) {
  EXPECT_EQ(text_of(sample(), {.width = 20}),
            "   N  NAME       END\n"
            "   1  short\n"
            "1000  a long n…  x\n");
  EXPECT_EQ(text_of(sample(), {.width = 3}),
            "   N  NAME      END\n"
            "   1  short\n"
            "1000  a long …  x\n")
      << "no narrower than makes sense";
}

TEST(TableTest, LeavesOutWhatIsEmptyThroughout) {
  Table table({{.title = "A", .optional = true}, {.title = "B", .optional = true}, {.title = "C"}});
  table.add({std::string(), std::string("b"), std::string()});
  EXPECT_EQ(text_of(table), "B  C\nb\n");
  table.add({std::string("a"), std::string(), std::string()});
  EXPECT_EQ(text_of(table), "A  B  C\n   b\na\n");
}

TEST(TableTest, ColorsCountForNothing) {
  Table table({{.title = "A"}, {.title = "B"}});
  table.add({{"x", Style::bad}, std::string("y")});
  table.add({std::string("xx"), std::string("y")});
  EXPECT_EQ(text_of(table, {.color = true}),
            "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n"
            "\x1b[31mx\x1b[0m   y\n"
            "xx  y\n");
}

TEST(TableTest, ControlCharactersBecomeEscapes) {
  Table table({{.title = "A"}});
  table.add({std::string("a\nb\x1b[2J\xff")});
  table.add({std::string("\u202egnp.exe\xc2\x9b")});
  EXPECT_EQ(text_of(table), "A\na\\nb\\x1b[2J\\xff\n\\u202egnp.exe\\xc2\\x9b\n");
}

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
