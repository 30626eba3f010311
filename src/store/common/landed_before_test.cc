#include "store/common/landed_before.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

using Kind = Mark::Kind;

bool landed(Kind kind, const RowState& row,
            const std::optional<std::string_view>& claim_owner = std::nullopt) {
  return landed_before({.kind = kind, .attempts = 3, .error = "no stock"}, row, claim_owner);
}

TEST(LandedBefore, AFinishedRowIsTheWorkOfTheMarkOfThatKind) {
  EXPECT_TRUE(landed(Kind::done, {.status = Status::done}));
  EXPECT_FALSE(landed(Kind::done, {.status = Status::dead}));
  EXPECT_FALSE(landed(Kind::done, {.status = Status::retry}));
  EXPECT_TRUE(landed(Kind::dead, {.status = Status::dead}));
  EXPECT_FALSE(landed(Kind::dead, {.status = Status::done}));
}

TEST(LandedBefore, WhatAnotherClaimerFinishedIsNot) {
  const RowState row{.status = Status::done, .locked_by = "other"};
  EXPECT_FALSE(landed(Kind::done, row, "me"));
  EXPECT_TRUE(landed(Kind::done, row, "other"));
  EXPECT_TRUE(landed(Kind::done, row)) << "without row claims nobody holds rows";
}

TEST(LandedBefore, ARetryIsKnownByItsAttemptsAndError) {
  const RowState row{.status = Status::retry, .attempts = 3, .hold = -1, .last_error = "no stock"};
  EXPECT_TRUE(landed(Kind::retry, row));
  RowState changed = row;
  changed.attempts = 2;
  EXPECT_FALSE(landed(Kind::retry, changed));
  changed = row;
  changed.last_error = "no money";
  EXPECT_FALSE(landed(Kind::retry, changed));
  changed = row;
  changed.locked_by = "other";
  EXPECT_FALSE(landed(Kind::retry, changed)) << "somebody has claimed it since";
}

TEST(LandedBefore, WhatWaitsWasDeferredOrSetAside) {
  for (const Kind kind : {Kind::defer, Kind::aside}) {
    EXPECT_TRUE(landed(kind, {.status = Status::fresh, .hold = 42}));
    EXPECT_FALSE(landed(kind, {.status = Status::fresh, .hold = 0}));
    EXPECT_FALSE(landed(kind, {.status = Status::fresh, .hold = 42, .locked_by = "other"}));
    EXPECT_FALSE(landed(kind, {.status = Status::done}));
  }
}

TEST(LandedBefore, ADeadRowOutsideItsLaneWasUnblocked) {
  EXPECT_TRUE(landed(Kind::unblock, {.status = Status::dead}));
  EXPECT_FALSE(landed(Kind::unblock, {.status = Status::dead, .hold = 42}));
  EXPECT_FALSE(landed(Kind::unblock, {.status = Status::fresh}));
}

TEST(LandedBefore, ASuspicionIsRaisedAgain) {
  EXPECT_FALSE(landed(Kind::suspect, {.status = Status::fresh}));
}

}  // namespace
}  // namespace outbox
