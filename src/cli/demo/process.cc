#include "cli/demo/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "outbox/error.h"

namespace outbox::demo {
namespace {

using std::chrono::steady_clock;

// Between fork and exec: nothing but system calls.
[[noreturn]] void become(char* const* arguments, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  // Ctrl-C goes to the whole process group; the parent alone decides.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv("/proc/self/exe", arguments);
  constexpr std::string_view kMessage = "cannot start /proc/self/exe\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(127);
}

[[noreturn]] void fail(const char* what) {
  const int reason = errno;
  throw UnavailableError(std::string("cannot start a process: ") + what + ": " +
                         std::strerror(reason));
}

}  // namespace

void Descriptor::reset(int number) noexcept {
  if (number_ >= 0) close(number_);
  number_ = number;
}

Child::Child(const std::vector<std::string>& arguments) {
  std::string name = "outbox";
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers{name.data()};
  for (std::string& copy : copies) pointers.push_back(copy.data());
  pointers.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  output_.reset(ends[0]);
  const Descriptor input{ends[1]};
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) become(pointers.data(), input.get(), parent);
}

Child::~Child() {
  if (ended_) return;
  signal(SIGKILL);
  exit_status();
}

void Child::signal(int number) const {
  // Until it is waited for, the id cannot belong to anybody else.
  if (!ended_) kill(pid_, number);
}

bool Child::read(std::vector<std::string>& lines) {
  bool open = true;
  char buffer[16 * 1024];
  while (open) {
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;  // nothing more for now
    if (got == 0) open = false;
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  std::size_t begin = 0;
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
    lines.push_back(unread_.substr(begin, end - begin));
    begin = end + 1;
  }
  unread_.erase(0, begin);
  return open;
}

ExitStatus Child::exit_status() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ended_ = true;
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.exit_code = WEXITSTATUS(status)};
}

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
