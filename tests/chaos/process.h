// A child process of this program.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace outbox::chaos {

// Runs this very program with other arguments. It dies with us: also a stopped
// one, also when we are killed. Spawned by the main thread of a process that
// has no other threads (PR_SET_PDEATHSIG goes by thread). Not thread-safe.
class Process {
 public:
  // Its output is appended to the file; SIGTERM and SIGUSR1 are blocked in it.
  // Throws std::system_error.
  Process(const std::vector<std::string>& arguments, const std::string& output);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // How it ended ("exit code 1", "signal 9"), or nullopt if it still runs at
  // the deadline; empty text for exit code 0.
  std::optional<std::string> wait(std::chrono::milliseconds timeout);

 private:
  pid_t pid_;
  int descriptor_;
  std::optional<std::string> ended_;
};

}  // namespace outbox::chaos
