// A process of a run: how it is started, how it is asked to end, and how it ended.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGTERM is POSIX
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace outbox::harness {

// What a process does: commits events, delivers them, or writes down what arrives.
enum class Role : std::uint8_t { writer, dispatcher, receiver };

const char* to_string(Role role);

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
  int code = 0;
  int signal = 0;  // not 0: killed by it

  bool success() const { return code == 0 && signal == 0; }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

inline constexpr ExitStatus kKilled{.signal = SIGKILL};

// "exit code 1", "signal 9"; "nothing" for what has not ended.
std::string to_string(const std::optional<ExitStatus>& status);
std::ostream& operator<<(std::ostream& out, const ExitStatus& status);

// A child process. Dies with the thread that started it (PR_SET_PDEATHSIG): also a stopped one,
// also when we are killed. What is blocked here is blocked in it, and SIGTERM and SIGUSR1 besides,
// from its first moment on: they wait until it has made its Signals. Not thread-safe.
class Process {
 public:
  // Runs this very program with other arguments; what it writes goes to `output`. Throws
  // UnavailableError if the system has no process to spare.
  Process(const std::vector<std::string>& arguments, const Descriptor& output);

  // Runs a function in a copy of this process, which must have no other threads; what it returns
  // is the exit code, 1 if it throws. Throws UnavailableError.
  explicit Process(const std::function<int()>& work);

  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // Waits for its end; the second one gives up after the timeout.
  ExitStatus wait();
  std::optional<ExitStatus> wait(std::chrono::milliseconds timeout);

 private:
  // The child goes on with `work`.
  template <class Work>
  void spawn(const Work& work);

  pid_t pid_ = 0;
  Descriptor watched_;  // readable once it has ended; from the first wait with a timeout on
  std::optional<ExitStatus> ended_;
};

// For the output of a process: appends to the file. Throws PermanentError.
Descriptor append_to(const std::string& path);

// For the output of a process: a pipe, read line by line. Not thread-safe.
class OutputPipe {
 public:
  OutputPipe();  // throws UnavailableError

  // For the process; afterwards the end of its output can be seen here.
  Descriptor take_input() { return std::move(input_); }

  // Readable when there is output, or the end.
  int descriptor() const { return output_.get(); }

  // Whole lines that came since the last call; false once the process has ended and everything
  // was read.
  bool read(std::vector<std::string>& lines);

 private:
  Descriptor input_;
  Descriptor output_;
  std::string unread_;
};

// Takes signals from its construction on; make it before the first thread, so that all of them
// leave the signals to it. Not thread-safe.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals = {SIGTERM});

  // The next one; waits for it.
  int wait();

  // True as soon as one has come; false after the timeout.
  bool wait_for(std::chrono::microseconds timeout);

  // For those who wait for several things: readable once one has come.
  int descriptor() const { return descriptor_.get(); }

  // One that has come, if any; the next call asks for another one.
  std::optional<int> take();

 private:
  Descriptor descriptor_;
};

}  // namespace outbox::harness
