// A process of the demo: how it is started, how it ended, and how it is asked to end.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t is POSIX
#include <sys/types.h>

#include <chrono>
#include <initializer_list>
#include <string>
#include <vector>

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

// How a process ended.
struct ExitStatus {
  int exit_code = 0;
  int signal = 0;  // not 0: killed by it
};

// This binary, running once more with other arguments. It dies with the
// process that started it, and is killed by the destructor. Not thread-safe.
class Child {
 public:
  // Throws UnavailableError if the system has no process to spare.
  explicit Child(const std::vector<std::string>& arguments);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // Readable when there is output, or the end.
  int descriptor() const { return output_.get(); }

  // Whole lines that came since the last call; false once the process has
  // ended and everything was read.
  bool read(std::vector<std::string>& lines);

  // After read() returned false.
  ExitStatus exit_status();

 private:
  pid_t pid_;
  bool ended_ = false;
  Descriptor output_;
  std::string unread_;
};

// Catches the signals that ask a process to end, from its construction on; make
// it before the first thread, so that all of them leave the signals to it.
class StopSignal {
 public:
  explicit StopSignal(std::initializer_list<int> signals = {SIGTERM});

  // True as soon as one has come; false after the timeout.
  bool wait_for(std::chrono::microseconds timeout);
  void wait();

  // For those who wait for several things: readable once one has come.
  int descriptor() const { return descriptor_.get(); }

  // Whether one has come; the next call asks for another one.
  bool take();

 private:
  Descriptor descriptor_;
};

}  // namespace outbox::demo
