#include "cli/demo/messages.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>

#include "outbox/error.h"

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;

const Message kMessage{.id = "01H", .customer = "ann", .number = 3};

std::string socket_path() {
  return ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
         ".sock";
}

TEST(Message, ComesOutAsItWentIn) { EXPECT_EQ(Message::parse(kMessage.line()), kMessage); }

TEST(Message, RefusesWhatIsNone) {
  for (const char* line : {"", "a", "a b", "a b c", "a b 1 more", " b 1", "a b 1x"}) {
    EXPECT_EQ(Message::parse(line), std::nullopt) << line;
  }
}

TEST(SocketPath, IsRefusedWhenTheKernelWouldCutIt) {
  EXPECT_NO_THROW(check_socket_path(std::string(107, 'x')));
  EXPECT_THROW(check_socket_path(std::string(108, 'x')), PermanentError);
}

TEST(Client, FindsNobodyAway) {
  Client client(socket_path(), 1s);
  EXPECT_THROW(client.deliver(kMessage), UnavailableError);
}

TEST(Client, GivesUpOnOneWhoDoesNotAnswer) {
  const Descriptor listening = listen_on(socket_path());
  Client client(socket_path(), 10ms);
  EXPECT_THROW(client.deliver(kMessage), UnavailableError);
}

TEST(Client, DeliversAndReturnsOnTheAcknowledgement) {
  const Descriptor listening = listen_on(socket_path());
  Client client(socket_path(), 20s);
  std::jthread sender([&] { client.deliver(kMessage); });
  Descriptor socket;
  while (!socket) socket.reset(accept(listening.get(), nullptr, nullptr));
  char text[64];
  const ssize_t got = recv(socket.get(), text, sizeof text, 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(got)), kMessage.line() + '\n');
  EXPECT_EQ(send(socket.get(), "+", 1, MSG_NOSIGNAL), 1);
}

using Kind = Report::Kind;

TEST(Report, ComesOutAsItWentIn) {
  for (const Report& report :
       {Report{.kind = Kind::ready}, Report{.kind = Kind::committed, .id = "a", .at = Moment{12us}},
        Report{.kind = Kind::rolled_back, .id = "b"},
        Report{.kind = Kind::received, .id = "c", .at = Moment{13us}},
        Report{.kind = Kind::duplicate, .id = "c", .at = Moment{14us}},
        Report{.kind = Kind::log, .text = "some words"}}) {
    EXPECT_EQ(Report::parse(report.line()), report) << report.line();
  }
}

TEST(Report, TakesForeignLinesForTheLog) {
  for (const char* line : {"", "terminate called", "@committed a b", "@received"}) {
    EXPECT_EQ(Report::parse(line), (Report{.kind = Kind::log, .text = line}));
  }
}

}  // namespace
}  // namespace outbox::demo
