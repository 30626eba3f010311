#include "harness/receiver.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "outbox/error.h"
#include "support/stores.h"
#include "support/temporary_directory.h"

namespace outbox::harness {
namespace {

using namespace std::chrono_literals;

const Message kMessage{.id = "01A",
                       .aggregate = "a7",
                       .number = 42,
                       .epoch = 3,
                       .process = 5,
                       .attempt = 2,
                       .at = 123456789};

std::string socket_path() {
  return ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
         ".sock";
}

TEST(Message, ComesOutAsItWentIn) { EXPECT_EQ(Message::parse(kMessage.line()), kMessage); }

TEST(Message, RefusesWhatIsNone) {
  for (const std::string& line : {std::string(), std::string("01A"), std::string("01A a7 42"),
                                  std::string("01A a7 many 3 5 2 1"),
                                  std::string("01A a7 42x 3 5 2 1"), kMessage.line() + " more"}) {
    EXPECT_EQ(Message::parse(line), std::nullopt) << line;
  }
}

// --- Ledgers ---

using Lines = std::vector<std::string>;

class LedgerTest : public ::testing::Test {
 protected:
  const test::TemporaryDirectory directory_;
  const std::string path_ = directory_.file("ledger");
};

TEST_F(LedgerTest, KeepsLinesOverAReopening) {
  {
    Ledger ledger(path_);
    ledger.append("one");
    ledger.sync();
  }
  Ledger ledger(path_);
  ledger.append("two");
  ledger.append("three");
  ledger.sync();
  EXPECT_EQ(read_lines(path_), (Lines{"one", "two", "three"}));
}

TEST_F(LedgerTest, CutsOffWhatAKilledWriterLeftUnfinished) {
  std::ofstream(path_) << "one\ntw";
  EXPECT_EQ(read_lines(path_), Lines{"one"});
  Ledger ledger(path_);
  ledger.append("two");
  ledger.sync();
  EXPECT_EQ(read_lines(path_), (Lines{"one", "two"}));
}

TEST_F(LedgerTest, IsEmptyWithoutAFile) { EXPECT_EQ(read_lines(path_), Lines{}); }

TEST_F(LedgerTest, NamesAFileThatCannotBeOpened) {
  try {
    Ledger ledger("/no/such/folder/ledger");
    FAIL() << "opened it";
  } catch (const PermanentError& error) {
    EXPECT_STREQ(error.what(), "cannot open /no/such/folder/ledger: No such file or directory");
  }
}

TEST(Ledger, GivesBackWhatWasWritten) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger");
  Ledger(path).append(kMessage.line());
  Ledger(path).append(Message{.id = "01B"}.line());
  EXPECT_EQ(read_messages(path), (std::vector{kMessage, Message{.id = "01B"}}));
}

TEST(Ledger, CutsALineThatADeathLeftTorn) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger");
  std::ofstream(path) << kMessage.line() << "\n01B torn";
  EXPECT_EQ(read_messages(path).size(), 1u);
  Ledger(path).append(Message{.id = "01C"}.line());
  const auto messages = read_messages(path);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].id, "01C");
}

TEST(Ledger, RefusesALineThatIsNoArrival) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("ledger");
  std::ofstream(path) << "01B torn\n";
  EXPECT_THROW(read_messages(path), PermanentError);
}

TEST(Ledger, IsEmptyWhereThereIsNoFile) {
  const test::TemporaryDirectory directory;
  EXPECT_TRUE(read_messages(directory.file("ledger")).empty());
}

// --- The way to the receiver ---

TEST(SocketPath, IsRefusedWhenTheKernelWouldCutIt) {
  EXPECT_NO_THROW(check_socket_path(std::string(107, 'x')));
  EXPECT_THROW(check_socket_path(std::string(108, 'x')), PermanentError);
}

TEST(Client, IsToldThatNobodyListens) {
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
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(got)), kMessage.line());
  EXPECT_EQ(send(socket.get(), "+", 1, MSG_NOSIGNAL), 1);
}

class ReceiverTest : public ::testing::Test {
 protected:
  // In a process of its own, until SIGTERM.
  static int receive(const ReceiverOptions& options) {
    const Signals stop;
    Receiver(options).serve(stop);
    return 0;
  }

  // As soon as it listens.
  void deliver(const Message& message) {
    Client client(options_.socket, 20s);
    ASSERT_TRUE(test::eventually([&] {
      try {
        client.deliver(message);
        return true;
      } catch (const UnavailableError&) {
        return false;
      }
    }));
  }

  const test::TemporaryDirectory directory_;
  ReceiverOptions options_{
      .ledger = directory_.file("ledger"), .socket = directory_.file("socket"), .sync = true};
};

TEST_F(ReceiverTest, WritesDownWhatItAcknowledgesAndEndsOnTheSignal) {
  Process receiver([this] { return receive(options_); });
  deliver(kMessage);
  const auto messages = read_messages(options_.ledger);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id, kMessage.id);
  EXPECT_GT(messages[0].at, kMessage.at) << "the time of its arrival";
  receiver.signal(SIGTERM);
  EXPECT_EQ(receiver.wait(20s), ExitStatus{});
}

TEST_F(ReceiverTest, IsWaitedForByAProcessThatWasStoppedMeanwhile) {
  const Descriptor listening = listen_on(options_.socket);
  Process sender([this] {
    Client(options_.socket, 20s).deliver(kMessage);
    return 0;
  });
  Descriptor socket;
  while (!socket) socket.reset(accept(listening.get(), nullptr, nullptr));
  char text[64];
  ASSERT_GT(recv(socket.get(), text, sizeof text, 0), 0);
  sender.signal(SIGSTOP);
  int state = 0;
  ASSERT_EQ(waitpid(sender.pid(), &state, WUNTRACED), sender.pid());
  sender.signal(SIGCONT);
  ASSERT_EQ(waitpid(sender.pid(), &state, WCONTINUED), sender.pid());
  EXPECT_EQ(sender.wait(50ms), std::nullopt) << "there is no answer yet";
  ASSERT_EQ(send(socket.get(), "+", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(sender.wait(20s), ExitStatus{});
}

TEST_F(ReceiverTest, ForgetsOneMessageIfItIsToldTo) {
  options_.forget_one = true;
  const Process receiver([this] { return receive(options_); });
  deliver(kMessage);
  deliver({.id = "01B"});
  const auto messages = read_messages(options_.ledger);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].id, "01B");
}

TEST_F(ReceiverTest, IsMissedWhenItIsKilled) {
  Process receiver([this] { return receive(options_); });
  deliver(kMessage);
  receiver.signal(SIGKILL);
  EXPECT_EQ(receiver.wait(), kKilled);
  Client client(options_.socket, 1s);
  EXPECT_THROW(client.deliver(kMessage), UnavailableError);
}

}  // namespace
}  // namespace outbox::harness
