#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "outbox/error.h"

namespace outbox {
namespace {

TEST(ProcessTest, AnInstanceWithoutANameIsCalledAfterItsHostAndProcess) {
  EXPECT_EQ(named({}).name, host_name() + ":" + std::to_string(getpid()));
  EXPECT_EQ(named({.name = "billing"}).name, "billing");
}

TEST(ProcessTest, TwoOwnersOfTheSameNameAreTold) {
  EXPECT_NE(unique_owner("billing"), unique_owner("billing"));
  EXPECT_TRUE(unique_owner("billing").starts_with("billing:"));
}

TEST(ProcessTest, AForkIsToldThatItCannotUseWhatItsParentOpened) {
  EXPECT_NO_THROW(check_not_forked(getpid(), "the store"));
  try {
    check_not_forked(getpid() + 1, "the store");
    FAIL() << "that is another process";
  } catch (const MisuseError& error) {
    EXPECT_EQ(error.what(), "the store was opened by process " + std::to_string(getpid() + 1) +
                                " and can't be used in its fork " + std::to_string(getpid()) +
                                ": open the store in the child");
  }
}

TEST(ProcessTest, AProcessThatEndedIsKnownToBeDead) {
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(done[1]);
    _exit(static_cast<int>(read(done[0], &byte, 1)));
  }
  const std::string mine = process_stamp();
  EXPECT_FALSE(is_certainly_dead(getpid(), mine));
  EXPECT_TRUE(is_certainly_dead(getpid(), mine + "0")) << "the id was given to another process";
  EXPECT_FALSE(is_certainly_dead(getpid(), "elsewhere/1")) << "on another host";
  EXPECT_FALSE(is_certainly_dead(getpid(), ""));
  close(done[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(done[0]);
  EXPECT_TRUE(is_certainly_dead(child, mine));
}

}  // namespace
}  // namespace outbox
