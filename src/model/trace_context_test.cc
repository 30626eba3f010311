#include "model/trace_context.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>

#include "outbox/telemetry/tracing.h"

namespace outbox {
namespace {

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kSpan = "b7ad6b7169203331";
const std::string kGood = "00-" + kTrace + "-" + kSpan + "-01";

TEST(TraceContextTest, ReadsAndWritesTraceparent) {
  const auto context = parse_trace(kGood, "congo=t61rcWkgMzE");
  ASSERT_TRUE(context);
  EXPECT_EQ(to_string(context->trace_id), kTrace);
  EXPECT_EQ(to_string(context->span_id), kSpan);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->state, "congo=t61rcWkgMzE");
  EXPECT_EQ(context->traceparent(), kGood);

  const auto quiet = parse_trace("00-" + kTrace + "-" + kSpan + "-00");
  ASSERT_TRUE(quiet);
  EXPECT_FALSE(quiet->sampled);
  EXPECT_EQ(quiet->traceparent(), "00-" + kTrace + "-" + kSpan + "-00");
}

TEST(TraceContextTest, DropsFlagsThatTheLevelDoesNotKnow) {
  const auto context = parse_trace("00-" + kTrace + "-" + kSpan + "-ff");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->traceparent(), kGood);
  EXPECT_FALSE(parse_trace("00-" + kTrace + "-" + kSpan + "-fe")->sampled);
}

TEST(TraceContextTest, ReadsWhatItKnowsOfLaterVersions) {
  for (const std::string& text : {"01-" + kTrace + "-" + kSpan + "-01",
                                  "cc-" + kTrace + "-" + kSpan + "-01-what-the-future-brings",
                                  "fe-" + kTrace + "-" + kSpan + "-01-"}) {
    const auto context = parse_trace(text);
    ASSERT_TRUE(context) << text;
    EXPECT_EQ(context->traceparent(), kGood) << text;
  }
  EXPECT_FALSE(parse_trace("cc-" + kTrace + "-" + kSpan + "-01.what"));
  EXPECT_FALSE(parse_trace("cc-" + kTrace + "-" + kSpan + "-011"));
}

TEST(TraceContextTest, IgnoresTraceparentsThatAreNotValid) {
  const std::string zeros(32, '0');
  for (const std::string& text : {
           std::string(),
           std::string("00"),
           std::string(55, '-'),
           std::string(55, '0'),
           "ff-" + kTrace + "-" + kSpan + "-01",
           "00-" + kTrace + "-" + kSpan + "-01-",
           "00-" + kTrace + "-" + kSpan + "-01 ",
           " 00-" + kTrace + "-" + kSpan + "-01",
           "00-" + kTrace + "-" + kSpan + "-1",
           "00-" + kTrace + "-" + kSpan,
           "00-" + zeros + "-" + kSpan + "-01",
           "00-" + kTrace + "-" + zeros.substr(0, 16) + "-01",
           "00-0AF7651916CD43DD8448EB211C80319C-" + kSpan + "-01",
           "00-" + kTrace + "-B7AD6B7169203331-01",
           "00-" + kTrace.substr(0, 31) + "g-" + kSpan + "-01",
           "00-" + kTrace + "-" + kSpan.substr(0, 15) + ".-01",
           "0x-" + kTrace + "-" + kSpan + "-01",
           "00-" + kTrace + "-" + kSpan + "-0x",
           "00_" + kTrace + "-" + kSpan + "-01",
           "00-" + kTrace + "_" + kSpan + "-01",
           "00-" + kTrace + "-" + kSpan + "_01",
       }) {
    EXPECT_FALSE(parse_trace(text)) << text;
  }
}

TEST(TraceStateTest, AcceptsWhatMayBePassedOn) {
  std::string most = "k0=v";
  for (int i = 1; i < 32; ++i) most += ",k" + std::to_string(i) + "=v";
  for (const std::string& text :
       {std::string("a=1"), std::string("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        std::string("a=1 \t, b=2"), std::string("a=1,,b=2,"), std::string("a= b c"),
        std::string("0tenant@system=v"), std::string("a_-*/9=!~"), std::string(256, 'k') + "=v",
        "k=" + std::string(256, 'v'), std::string(241, 't') + "@" + std::string(14, 's') + "=v",
        most}) {
    EXPECT_TRUE(is_trace_state(text)) << text;
    EXPECT_EQ(parse_trace(kGood, text)->state, text);
  }
}

TEST(TraceStateTest, DropsWhatIsNotValidAndKeepsTheTrace) {
  std::string too_many = "k0=v";
  for (int i = 1; i <= 32; ++i) too_many += ",k" + std::to_string(i) + "=v";
  for (const std::string& text : {std::string("a"),
                                  std::string("a="),
                                  std::string("=1"),
                                  std::string("A=1"),
                                  std::string("0a=1"),
                                  std::string("a=1=2"),
                                  std::string("a =1"),
                                  std::string("a=1,a=2"),
                                  std::string("a=\x7f"),
                                  std::string("a=\xc3\xa9"),
                                  std::string("a=\t1"),
                                  std::string("a@=1"),
                                  std::string("@a=1"),
                                  std::string("a@0b=1"),
                                  std::string("a@b@c=1"),
                                  std::string(257, 'k') + "=v",
                                  "k=" + std::string(257, 'v'),
                                  std::string(242, 't') + "@s=v",
                                  "t@" + std::string(15, 's') + "=v",
                                  too_many}) {
    EXPECT_FALSE(is_trace_state(text)) << text;
    const auto context = parse_trace(kGood, text);
    ASSERT_TRUE(context) << text;
    EXPECT_EQ(context->state, "") << text;
    EXPECT_EQ(context->traceparent(), kGood) << text;
  }
  EXPECT_FALSE(is_trace_state(""));
  EXPECT_FALSE(is_trace_state(" , ,"));
}

TEST(TraceScopeTest, NestsAndBelongsToItsThread) {
  EXPECT_FALSE(current_trace());
  const auto outer = parse_trace(kGood);
  TraceContext inner = *outer;
  inner.span_id = new_span_id();
  {
    const TraceScope first{outer};
    EXPECT_EQ(current_trace(), outer);
    {
      const TraceScope second{inner};
      EXPECT_EQ(current_trace(), inner);
      std::thread([] { EXPECT_FALSE(current_trace()); }).join();
      const TraceScope none{std::nullopt};
      EXPECT_FALSE(current_trace());
      const TraceScope invalid{TraceContext{}};
      EXPECT_FALSE(current_trace());
    }
    EXPECT_EQ(current_trace(), outer);
  }
  EXPECT_FALSE(current_trace());
}

TEST(TraceIdsTest, AreDifferent) {
  std::set<SpanId> ids;
  for (int i = 0; i < 10'000; ++i) ids.insert(new_span_id());
  EXPECT_EQ(ids.size(), 10'000u);
  EXPECT_NE(new_trace_id(), new_trace_id());
}

TEST(TraceIdsTest, AChildProcessDoesNotRepeatItsParents) {
  (void)new_span_id();  // seeds this thread
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const SpanId id = new_span_id();
    const bool written = ::write(ends[1], id.data(), id.size()) == std::ssize(id);
    _exit(written ? 0 : 1);
  }
  const SpanId here = new_span_id();
  SpanId there{};
  EXPECT_EQ(::read(ends[0], there.data(), there.size()), std::ssize(there));
  EXPECT_NE(here, there);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(TraceIdsTest, AreSampledInProportion) {
  int kept = 0;
  for (int i = 0; i < 10'000; ++i) {
    const TraceId id = new_trace_id();
    EXPECT_TRUE(sampled(id, 1.0));
    EXPECT_FALSE(sampled(id, 0.0));
    if (sampled(id, 0.25)) ++kept;
  }
  // Twenty standard deviations to each side.
  EXPECT_GT(kept, 1'600);
  EXPECT_LT(kept, 3'400);
}

}  // namespace
}  // namespace outbox
