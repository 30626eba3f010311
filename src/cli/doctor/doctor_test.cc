#include "cli/doctor/doctor.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace outbox::cli {
namespace {

using Verdict = Finding::Verdict;

Check finds(const char* name, std::vector<Finding> findings) {
  return {.name = name, .find = [findings] { return findings; }};
}

Check throws(const char* name, bool required) {
  return {.name = name,
          .find = []() -> std::vector<Finding> { throw std::runtime_error("no answer"); },
          .required = required,
          .advice = "ask again"};
}

std::string names(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += finding.check + " ";
  return text;
}

TEST(Examine, GoesOnAfterAFailureThatSaysNothingOfTheRest) {
  const auto findings =
      examine({finds("a", {fine("good")}), finds("b", {failure("bad", "mend it")}), finds("c", {}),
               finds("d", {fine("x"), warning("y")})});
  EXPECT_EQ(names(findings), "a b d d ");
  EXPECT_EQ(findings[1].verdict, Verdict::failure);
  EXPECT_EQ(findings[1].advice, "mend it");
}

TEST(Examine, StopsWhereTheRestWouldOnlyFindTheSame) {
  EXPECT_EQ(names(examine({finds("a", {fatal("bad")}), finds("b", {fine("good")})})), "a ");
  const auto findings = examine({throws("a", true), finds("b", {fine("good")})});
  ASSERT_EQ(names(findings), "a ");
  EXPECT_EQ(findings[0].verdict, Verdict::failure);
  EXPECT_EQ(findings[0].says, "no answer");
  EXPECT_EQ(findings[0].advice, "ask again");
}

TEST(Examine, WarnsOfWhatCannotBeCheckedAndGoesOn) {
  const auto findings = examine({throws("a", false), finds("b", {fine("good")})});
  ASSERT_EQ(names(findings), "a b ");
  EXPECT_EQ(findings[0].verdict, Verdict::warning);
  EXPECT_NE(findings[0].says.find("no answer"), std::string::npos);
}

}  // namespace
}  // namespace outbox::cli
