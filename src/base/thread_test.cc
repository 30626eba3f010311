#include "base/thread.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace outbox {
namespace {

std::string after_naming(std::string_view name) {
  std::array<char, 16> seen{};
  std::jthread([&] {
    name_this_thread(name);
    pthread_getname_np(pthread_self(), seen.data(), seen.size());
  }).join();
  return seen.data();
}

TEST(ThreadName, IsSetForTheCallingThread) {
  EXPECT_EQ(after_naming("outbox-reader"), "outbox-reader");
}

TEST(ThreadName, IsCutToWhatTheKernelKeeps) {
  EXPECT_EQ(after_naming("outbox-worker-12345"), "outbox-worker-1");
}

}  // namespace
}  // namespace outbox
