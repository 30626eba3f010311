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

}  // namespace
}  // namespace outbox::demo
