// The way from a dispatcher to the receiver: a packet there, a packet back.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "oracle.h"

namespace outbox::chaos {

// A file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// A socket that keeps the bounds of packets, on a path. Throws
// std::system_error.
Descriptor listen_at(const std::string& path);

// Throws UnavailableError if nobody listens there.
Descriptor connect_to(const std::string& path);

// Keeps a connection for each call under way. Thread-safe.
class Courier {
 public:
  explicit Courier(std::string path) : path_(std::move(path)) {}

  // Returns once the receiver has acknowledged. Throws UnavailableError if it
  // is gone, or says nothing for much longer than any stop lasts: it may have
  // the event then.
  void deliver(const Arrival& arrival);

 private:
  Descriptor take();

  // Constant after construction.
  const std::string path_;

  std::mutex mutex_;
  std::vector<Descriptor> idle_;
};

}  // namespace outbox::chaos
