#include "cli/demo/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>

#include "outbox/error.h"

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;

const Parcel kParcel{.id = "01H", .customer = "ann", .number = 3};

std::string socket_path() {
  return ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
         ".sock";
}

TEST(Parcel, ComesOutAsItWentIn) { EXPECT_EQ(Parcel::parse(kParcel.line()), kParcel); }

TEST(Parcel, RefusesWhatIsNone) {
  for (const char* line : {"", "a", "a b", "a b c", "a b 1 more", " b 1", "a b 1x"}) {
    EXPECT_EQ(Parcel::parse(line), std::nullopt) << line;
  }
}

TEST(SocketPath, IsRefusedWhenTheKernelWouldCutIt) {
  EXPECT_NO_THROW(check_socket_path(std::string(107, 'x')));
  EXPECT_THROW(check_socket_path(std::string(108, 'x')), PermanentError);
}

TEST(Courier, FindsNobodyAway) {
  Courier courier(socket_path(), 1s);
  EXPECT_THROW(courier.deliver(kParcel), UnavailableError);
}

TEST(Courier, GivesUpOnOneWhoDoesNotAnswer) {
  const Descriptor listening = listen_on(socket_path());
  Courier courier(socket_path(), 10ms);
  EXPECT_THROW(courier.deliver(kParcel), UnavailableError);
}

TEST(Courier, DeliversAndReturnsOnTheAcknowledgement) {
  const Descriptor listening = listen_on(socket_path());
  Courier courier(socket_path(), 20s);
  std::jthread sender([&] { courier.deliver(kParcel); });
  Descriptor socket;
  while (!socket) socket.reset(accept(listening.get(), nullptr, nullptr));
  char text[64];
  const ssize_t got = recv(socket.get(), text, sizeof text, 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(got)), kParcel.line() + '\n');
  EXPECT_EQ(send(socket.get(), "+", 1, MSG_NOSIGNAL), 1);
}

}  // namespace
}  // namespace outbox::demo
