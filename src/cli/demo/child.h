// A process of the demo.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/demo/wire.h"

namespace outbox::demo {

// How a process ended.
struct Ending {
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
  Ending ending();

 private:
  pid_t pid_;
  bool ended_ = false;
  Descriptor output_;
  std::string unread_;
};

}  // namespace outbox::demo
