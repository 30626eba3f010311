#include "model/status_update.h"

#include <gtest/gtest.h>

namespace outbox {
namespace {

using Kind = StatusUpdate::Kind;

bool acked(Kind kind, const RowState& row,
           const std::optional<std::string_view>& claim_owner = std::nullopt) {
  return already_applied({.kind = kind, .attempts = 3, .error = "no stock"}, row, claim_owner);
}

TEST(AlreadyApplied, AFinishedRowIsTheWorkOfTheMarkOfThatKind) {
  EXPECT_TRUE(acked(Kind::done, {.status = Status::done}));
  EXPECT_FALSE(acked(Kind::done, {.status = Status::dead}));
  EXPECT_FALSE(acked(Kind::done, {.status = Status::retry}));
  EXPECT_TRUE(acked(Kind::dead, {.status = Status::dead}));
  EXPECT_FALSE(acked(Kind::dead, {.status = Status::done}));
}

TEST(AlreadyApplied, WhatAnotherClaimerFinishedIsNot) {
  const RowState row{.status = Status::done, .locked_by = "other"};
  EXPECT_FALSE(acked(Kind::done, row, "me"));
  EXPECT_TRUE(acked(Kind::done, row, "other"));
  EXPECT_TRUE(acked(Kind::done, row)) << "without row claims nobody holds rows";
}

TEST(AlreadyApplied, ARetryIsKnownByItsAttemptsAndError) {
  const RowState row{.status = Status::retry, .attempts = 3, .hold = -1, .last_error = "no stock"};
  EXPECT_TRUE(acked(Kind::retry, row));
  RowState changed = row;
  changed.attempts = 2;
  EXPECT_FALSE(acked(Kind::retry, changed));
  changed = row;
  changed.last_error = "no money";
  EXPECT_FALSE(acked(Kind::retry, changed));
  changed = row;
  changed.locked_by = "other";
  EXPECT_FALSE(acked(Kind::retry, changed)) << "somebody has claimed it since";
}

TEST(AlreadyApplied, WhatWaitsWasDeferredOrHeld) {
  for (const Kind kind : {Kind::defer, Kind::hold}) {
    EXPECT_TRUE(acked(kind, {.status = Status::pending, .hold = 42}));
    EXPECT_FALSE(acked(kind, {.status = Status::pending, .hold = 0}));
    EXPECT_FALSE(acked(kind, {.status = Status::pending, .hold = 42, .locked_by = "other"}));
    EXPECT_FALSE(acked(kind, {.status = Status::done}));
  }
}

TEST(AlreadyApplied, ADeadRowOutsideItsLaneWasUnblocked) {
  EXPECT_TRUE(acked(Kind::unblock, {.status = Status::dead}));
  EXPECT_FALSE(acked(Kind::unblock, {.status = Status::dead, .hold = 42}));
  EXPECT_FALSE(acked(Kind::unblock, {.status = Status::pending}));
}

TEST(AlreadyApplied, ASuspicionIsRaisedAgain) {
  EXPECT_FALSE(acked(Kind::crashes, {.status = Status::pending}));
}

}  // namespace

}  // namespace outbox
