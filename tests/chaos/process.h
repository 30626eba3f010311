// A child process of this program.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace outbox::chaos {

// Dies with us: also a stopped one, also when we are killed. Spawned by the main
// thread (PR_SET_PDEATHSIG goes by thread). SIGTERM and SIGUSR1 are blocked in it.
// Not thread-safe.
class Process {
 public:
  // Runs this very program with other arguments; its output is appended to the
  // file. Throws std::system_error.
  Process(const std::vector<std::string>& arguments, const std::string& output);

  // Runs a function in a copy of this process, which must have no other threads;
  // what it returns is the exit code, 1 if it throws. Throws std::system_error.
  explicit Process(const std::function<int()>& work);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // How it ended ("exit code 1", "signal 9"), or nullopt if it still runs at
  // the deadline; empty text for exit code 0.
  std::optional<std::string> wait(std::chrono::milliseconds timeout);

 private:
  // The child goes on with `work`.
  template <class Work>
  void spawn(const Work& work);

  pid_t pid_ = 0;
  int descriptor_ = -1;
  std::optional<std::string> ended_;
};

}  // namespace outbox::chaos
