// Signals as something to wait for.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t is POSIX

#include <chrono>
#include <initializer_list>

#include "cli/demo/wire.h"

namespace outbox::demo {

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
