#include "outbox/version.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox {
namespace {

TEST(Version, TextAndNumberAreMadeOfTheParts) {
  const std::string text = std::to_string(OUTBOX_VERSION_MAJOR) + "." +
                           std::to_string(OUTBOX_VERSION_MINOR) + "." +
                           std::to_string(OUTBOX_VERSION_PATCH);
  EXPECT_EQ(text, OUTBOX_VERSION);
  EXPECT_EQ(OUTBOX_VERSION_NUMBER,
            OUTBOX_VERSION_MAJOR * 1'000'000 + OUTBOX_VERSION_MINOR * 1'000 + OUTBOX_VERSION_PATCH);
}

TEST(Version, TheLibraryIsOfTheVersionOfItsHeaders) { EXPECT_EQ(version(), OUTBOX_VERSION); }

}  // namespace
}  // namespace outbox
