#include "cli/demo/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace outbox::demo {

using std::chrono::steady_clock;

StopSignal::StopSignal(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

bool StopSignal::wait_for(std::chrono::microseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    const auto left = std::max(deadline - steady_clock::now(), steady_clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{.tv_sec = seconds.count(),
                         .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    pollfd waiting{.fd = descriptor(), .events = POLLIN, .revents = 0};
    const int ready = ppoll(&waiting, 1, &limit, nullptr);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

bool StopSignal::take() {
  signalfd_siginfo info;
  return read(descriptor(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
}

void StopSignal::wait() {
  while (!wait_for(std::chrono::hours{1})) {
  }
}

}  // namespace outbox::demo
