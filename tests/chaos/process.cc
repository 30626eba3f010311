#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>

namespace outbox::chaos {
namespace {

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before we asked
}

}  // namespace

template <class Work>
void Process::spawn(const Work& work) {
  const pid_t parent = getpid();
  // Blocked in the child from its first moment on: they wait until it is ready
  // to take them; see RoleSignals.
  sigset_t later;
  sigset_t before;
  sigemptyset(&later);
  sigaddset(&later, SIGTERM);
  sigaddset(&later, SIGUSR1);
  sigprocmask(SIG_BLOCK, &later, &before);
  pid_ = fork();
  if (pid_ == 0) {
    die_with(parent);
    work();
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw std::system_error(error, std::generic_category(), "fork");
  // By number: the C library's header for it cannot be used from C++.
  descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (descriptor_ < 0) {
    const int reason = errno;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    throw std::system_error(reason, std::generic_category(), "pidfd_open");
  }
}

Process::Process(const std::vector<std::string>& arguments, const std::string& output) {
  std::vector<std::string> texts{"outbox_chaos"};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(texts.size() + 1);
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);

  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) throw std::system_error(errno, std::generic_category(), output);
  // Only what is safe between fork() and exec().
  spawn([&] {
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  });
  close(file);
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
  if (!ended_) {
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(descriptor_);
}

void Process::signal(int number) const {
  // The id is ours until waitpid() has taken it.
  if (!ended_) ::kill(pid_, number);
}

std::optional<std::string> Process::wait(std::chrono::milliseconds timeout) {
  if (ended_) return ended_;
  pollfd polled{descriptor_, POLLIN, 0};
  poll(&polled, 1, static_cast<int>(timeout.count()));
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  if (WIFSIGNALED(status)) {
    ended_ = "signal " + std::to_string(WTERMSIG(status));
  } else {
    const int code = WEXITSTATUS(status);
    ended_ = code == 0 ? std::string() : "exit code " + std::to_string(code);
  }
  return ended_;
}

}  // namespace outbox::chaos
