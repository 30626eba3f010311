#include "outbox/spi/store.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

TEST(Status, HasTheNamesAndNumbersThatOperatorsSee) {
  EXPECT_EQ(to_string(Status::pending), "NEW");
  EXPECT_EQ(to_string(Status::done), "DONE");
  EXPECT_EQ(to_string(Status::retry), "RETRY");
  EXPECT_EQ(to_string(Status::dead), "DEAD");
  EXPECT_EQ(static_cast<int>(Status::pending), 0);
  EXPECT_EQ(static_cast<int>(Status::done), 1);
  EXPECT_EQ(static_cast<int>(Status::retry), 2);
  EXPECT_EQ(static_cast<int>(Status::dead), 3);
}

TEST(Status, NamesANumberThatNoReleaseWrote) {
  EXPECT_EQ(to_string(static_cast<Status>(9)), "UNKNOWN");
}

}  // namespace
}  // namespace outbox
