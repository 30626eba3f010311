#include "store/common/connection.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace outbox {
namespace {

template <class E>
void note(FirstFailure& failure, const char* what) {
  try {
    throw E(what);
  } catch (...) {
    failure.note();
  }
}

template <class E>
std::string message_of(const FirstFailure& failure) {
  try {
    failure.throw_rolled_back("rolled back");
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind: ") + error.what();
  }
}

TEST(FirstFailure, WithoutACauseItIsToBeStartedOver) {
  EXPECT_EQ(message_of<RetryableError>(FirstFailure()), "rolled back; start it over");
}

TEST(FirstFailure, WhatWouldFailAgainIsNotToBeStartedOver) {
  FirstFailure misuse;
  note<MisuseError>(misuse, "wrong");
  EXPECT_EQ(message_of<MisuseError>(misuse), "rolled back (wrong); it would fail again");
  FirstFailure permanent;
  note<PermanentError>(permanent, "corrupt");
  EXPECT_EQ(message_of<PermanentError>(permanent), "rolled back (corrupt); it would fail again");
  FirstFailure retryable;
  note<RetryableError>(retryable, "deadlock");
  EXPECT_EQ(message_of<RetryableError>(retryable), "rolled back (deadlock); start it over");
  FirstFailure other;
  note<std::runtime_error>(other, "hm");
  EXPECT_EQ(message_of<RetryableError>(other), "rolled back (hm); start it over");
}

TEST(FirstFailure, WhatTheDatabaseSaidIsSaidAgain) {
  FirstFailure failure;
  try {
    throw DatabaseError("taken", {.kind = DatabaseError::Kind::unique_violation,
                                  .sqlstate = "23505",
                                  .constraint = "orders_number"});
  } catch (...) {
    failure.note();
  }
  try {
    failure.throw_rolled_back("rolled back");
  } catch (const DatabaseError& error) {
    EXPECT_STREQ(error.what(), "rolled back (taken); it would fail again");
    EXPECT_EQ(error.kind(), DatabaseError::Kind::unique_violation);
    EXPECT_EQ(error.sqlstate(), "23505");
    EXPECT_EQ(error.constraint(), "orders_number");
  }
}

TEST(FirstFailure, TheFirstOneCountsUntilItIsForgotten) {
  FirstFailure failure;
  note<RetryableError>(failure, "first");
  note<MisuseError>(failure, "second");
  EXPECT_EQ(message_of<RetryableError>(failure), "rolled back (first); start it over");
  failure.clear();
  note<MisuseError>(failure, "third");
  EXPECT_EQ(message_of<MisuseError>(failure), "rolled back (third); it would fail again");
}

}  // namespace

}  // namespace outbox
