#include "base/percent.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

TEST(Percent, WhatIsEncodedComesBack) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  const std::string encoded = percent_encoded(every);
  EXPECT_EQ(percent_decoded(encoded), every);
  EXPECT_EQ(encoded.find_first_of("@:?#&= \n"), std::string::npos) << encoded;
}

TEST(Percent, EncodesOnlyWhatMustBe) {
  EXPECT_EQ(percent_encoded("a-Z_0.9~,/"), "a-Z_0.9~,/");
  EXPECT_EQ(percent_encoded("p@ss"), "p%40ss");
}

TEST(Percent, RefusesWhatIsNotHexadecimal) {
  for (const char* text : {"%", "%4", "a%4", "%4g", "%g4", "%-1", "% 1"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
  EXPECT_EQ(percent_decoded("%4a%4A"), "JJ");
}

}  // namespace
}  // namespace outbox
