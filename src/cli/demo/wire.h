// How the dispatcher hands events to the receiver: a Unix domain socket, one
// line a request, one line an answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace outbox::demo {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  int release() noexcept {
    const int number = number_;
    number_ = -1;
    return number;
  }
  void reset(int number = -1) noexcept;

 private:
  int number_;
};

// Throws PermanentError if the kernel takes no socket address of that length.
void check_socket_path(const std::string& path);

// A listening, non-blocking socket; one that a dead process left is replaced.
// Throws PermanentError if it cannot be made.
Descriptor listen_on(const std::string& path);

// What the dispatcher tells of an event, as one line, and back.
struct Parcel {
  std::string id{};
  std::string customer{};
  int number = 0;  // counts the customer's orders from 1

  std::string line() const;
  static std::optional<Parcel> parse(std::string_view line);

  friend bool operator==(const Parcel&, const Parcel&) = default;
};

// Sends parcels and waits for the acknowledgement of each. Keeps connections
// for the next ones. Thread-safe.
class Courier {
 public:
  Courier(std::string path, std::chrono::milliseconds timeout);

  // Throws UnavailableError if nobody answers in time.
  void deliver(const Parcel& parcel);

 private:
  Descriptor take();
  Descriptor connect() const;

  const std::string path_;
  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  std::vector<Descriptor> idle_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::demo
