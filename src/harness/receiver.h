// Where events end: a process that writes down what arrives, and the way from a dispatcher to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "harness/ledger.h"
#include "harness/process.h"

namespace outbox::harness {

// What a dispatcher tells of an event, and the receiver writes down: a line of its ledger.
struct Message {
  std::string id{};
  std::string aggregate{};
  std::int64_t number = 0;  // grows with every event of the aggregate
  std::int64_t epoch = 0;
  int process = 0;  // which dispatcher delivered it; 0: nobody says
  int attempt = 1;
  std::int64_t at = 0;  // microseconds since 1970; the receiver fills it in

  std::string line() const;
  static std::optional<Message> parse(std::string_view line);

  friend bool operator==(const Message&, const Message&) = default;
};

// The messages of a ledger. Throws PermanentError for a line that is none.
std::vector<Message> read_messages(const std::string& ledger);

// Throws PermanentError if the kernel takes no socket address of that length.
void check_socket_path(const std::string& path);

// A listening, non-blocking Unix domain socket that keeps the bounds of packets: one is a
// message, one the answer. Replaces one that a dead process left. Throws PermanentError if it
// cannot be made.
Descriptor listen_on(const std::string& path);

// Sends messages and waits for the acknowledgement of each. Keeps connections for the next ones.
// Thread-safe.
class Client {
 public:
  Client(std::string path, std::chrono::milliseconds timeout);

  // Throws UnavailableError if nobody answers in time: the receiver may have the message then.
  void deliver(const Message& message);

 private:
  Descriptor take();
  Descriptor connect() const;

  const std::string path_;
  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  std::vector<Descriptor> idle_ OUTBOX_GUARDED_BY(mutex_);
};

struct ReceiverOptions {
  std::string ledger{};
  std::string socket{};

  // Whether messages are on the disk before they are acknowledged. The death of the process
  // alone does no harm without it.
  bool sync = false;

  // To test the verdict: acknowledge the first message without writing it down.
  bool forget_one = false;

  // Told of each message after it was written down and acknowledged, with the time of its arrival.
  std::function<void(const Message&, std::chrono::steady_clock::time_point)> on_message{};
};

// Writes down what arrives, then acknowledges it. One thread, so that the order of the ledger is
// the order of arrival.
class Receiver {
 public:
  // Throws PermanentError if the ledger cannot be written or the socket cannot be made.
  explicit Receiver(ReceiverOptions options);

  // Until the signal comes.
  void serve(const Signals& stop);

 private:
  struct Arrival {
    Message message;
    int from;  // the socket that waits for the answer
    std::chrono::steady_clock::time_point at;
  };

  void accept();
  bool read(const Descriptor& sender);
  void write_down();

  ReceiverOptions options_;
  Ledger ledger_;
  Descriptor listening_;
  std::vector<Descriptor> senders_;
  std::vector<Arrival> arrivals_;  // of this round
};

}  // namespace outbox::harness
