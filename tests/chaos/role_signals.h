// How a process of the run learns that it is to end.
#pragma once

#include <csignal>

namespace outbox::chaos {

// Made before any thread, which inherit the mask; then the signals wait until
// they are asked for. (Process blocks them from the very start.) Used by the
// main thread.
class RoleSignals {
 public:
  RoleSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

  // The next one; waits for it.
  int wait() const {
    int signal = 0;
    while (sigwait(&set_, &signal) != 0) {
    }
    return signal;
  }

  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_{};
};

}  // namespace outbox::chaos
