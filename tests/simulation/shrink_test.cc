#include "simulation/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace outbox::simulation {
namespace {

TEST(Choices, ASeedGivesTheSameAnswersAgain) {
  Choices first(7);
  Choices second(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.below(10), second.below(10));
  EXPECT_EQ(first.answers(), second.answers());
}

TEST(Choices, AnswersAreRepeatedAndThenPlain) {
  Choices drawn(7);
  for (int i = 0; i < 20; ++i) drawn.below(5);
  Choices repeated(drawn.answers());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(repeated.below(5), drawn.answers()[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(repeated.below(5), 0U);
  EXPECT_FALSE(repeated.one_in(2));
}

TEST(Choices, AnAnswerBeyondTheQuestionIsBroughtIntoIt) {
  Choices repeated(Choices::Answers{7});
  EXPECT_EQ(repeated.below(5), 2U);
}

TEST(Shrink, WhatDoesNotMatterBecomesPlainOrIsCutOff) {
  Choices::Answers answers(200, 3);
  answers[120] = 9;
  std::size_t asked = 0;
  const auto fails = [&](const Choices::Answers& candidate) {
    ++asked;
    return std::find(candidate.begin(), candidate.end(), 9U) != candidate.end();
  };
  const Choices::Answers simple = shrink(answers, fails, 2'000);
  EXPECT_TRUE(fails(simple));
  EXPECT_EQ(std::count_if(simple.begin(), simple.end(), [](auto each) { return each != 0; }), 1);
  EXPECT_LE(simple.size(), 121U);
  EXPECT_LE(asked, 2'001U);
}

TEST(Shrink, ItStopsWhenItHasAskedOftenEnough) {
  std::size_t asked = 0;
  shrink(
      Choices::Answers(1'000, 1),
      [&](const Choices::Answers&) {
        ++asked;
        return false;
      },
      50);
  EXPECT_EQ(asked, 50U);
}

}  // namespace
}  // namespace outbox::simulation
