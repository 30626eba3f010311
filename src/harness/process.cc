#include "harness/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <ostream>
#include <string_view>
#include <system_error>

#include "outbox/error.h"

namespace outbox::harness {
namespace {

using std::chrono::steady_clock;

[[noreturn]] void fail(const char* call, int reason) {
  throw UnavailableError(std::string("cannot start a process: ") + call + ": " +
                         std::strerror(reason));
}

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
}

// Between fork and exec: nothing but system calls.
[[noreturn]] void become(char* const* arguments, int output) {
  ::signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv("/proc/self/exe", arguments);
  constexpr std::string_view kMessage = "cannot start /proc/self/exe\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(127);
}

ExitStatus status_of(int state) {
  if (WIFSIGNALED(state)) return {.signal = WTERMSIG(state)};
  return {.code = WEXITSTATUS(state)};
}

}  // namespace

const char* to_string(Role role) {
  switch (role) {
    case Role::writer:
      return "writer";
    case Role::dispatcher:
      return "dispatcher";
    case Role::receiver:
      break;
  }
  return "receiver";
}

void Descriptor::reset(int number) noexcept {
  if (number_ >= 0) close(number_);
  number_ = number;
}

std::string to_string(const std::optional<ExitStatus>& status) {
  if (!status) return "nothing";
  return status->signal != 0 ? "signal " + std::to_string(status->signal)
                             : "exit code " + std::to_string(status->code);
}

std::ostream& operator<<(std::ostream& out, const ExitStatus& status) {
  return out << to_string(status);
}

// --- Process ---

template <class Work>
void Process::spawn(const Work& work) {
  const pid_t parent = getpid();
  sigset_t later;
  sigset_t before;
  sigemptyset(&later);
  sigaddset(&later, SIGTERM);
  sigaddset(&later, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &later, &before);
  pid_ = fork();
  if (pid_ == 0) {
    die_with(parent);
    work();
  }
  const int reason = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) fail("fork", reason);
}

Process::Process(const std::vector<std::string>& arguments, const Descriptor& output) {
  std::vector<std::string> texts{program_invocation_short_name};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  spawn([&] { become(pointers.data(), output.get()); });
}

Process::Process(const std::function<int()>& work) {
  spawn([&] {
    int code = 1;
    try {
      code = work();
    } catch (const std::exception& error) {
      fprintf(stderr, "process %d: %s\n", getpid(), error.what());
    }
    _exit(code);
  });
}

Process::~Process() {
  if (ended_) return;
  signal(SIGKILL);
  wait();
}

void Process::signal(int number) const {
  // Until it is waited for, the id cannot belong to anybody else.
  if (!ended_) kill(pid_, number);
}

ExitStatus Process::wait() {
  if (ended_) return *ended_;
  int state = 0;
  while (waitpid(pid_, &state, 0) < 0 && errno == EINTR) {
  }
  return ended_.emplace(status_of(state));
}

std::optional<ExitStatus> Process::wait(std::chrono::milliseconds timeout) {
  if (ended_) return ended_;
  // By number: the C library's header for it cannot be used from C++.
  if (!watched_) watched_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!watched_) throw std::system_error(errno, std::generic_category(), "pidfd_open");
  pollfd polled{.fd = watched_.get(), .events = POLLIN, .revents = 0};
  poll(&polled, 1, static_cast<int>(timeout.count()));
  int state = 0;
  if (waitpid(pid_, &state, WNOHANG) == pid_) ended_ = status_of(state);
  return ended_;
}

Descriptor append_to(const std::string& path) {
  Descriptor file{open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  if (!file) throw PermanentError("cannot open " + path + ": " + std::strerror(errno));
  return file;
}

// --- OutputPipe ---

OutputPipe::OutputPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe", errno);
  output_.reset(ends[0]);
  input_.reset(ends[1]);
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

bool OutputPipe::read(std::vector<std::string>& lines) {
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

// --- Signals ---

Signals::Signals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

int Signals::wait() {
  for (;;) {
    if (!wait_for(std::chrono::hours{1})) continue;
    if (const auto signal = take()) return *signal;
  }
}

bool Signals::wait_for(std::chrono::microseconds timeout) {
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

std::optional<int> Signals::take() {
  signalfd_siginfo info;
  if (read(descriptor(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace outbox::harness
