// What the tests of the SQLite store share.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "support/sqlite.h"
#include "support/stores.h"
#include "support/temporary_directory.h"

namespace outbox::sqlite {

using namespace std::chrono_literals;
using test::begun;
using test::contains;
using test::ForeignConnection;
using test::ids;
using test::message_of;
using test::simple_event;
using test::write_event;

// A pipe that tells one process how far the other has come.
class Milestone {
 public:
  Milestone() {
    if (pipe(ends_) != 0) throw std::runtime_error("pipe");
  }
  ~Milestone() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Milestone(const Milestone&) = delete;
  Milestone& operator=(const Milestone&) = delete;

  void reach() const { static_cast<void>(write(ends_[1], "x", 1)); }
  bool wait() const {
    pollfd polled{ends_[0], POLLIN, 0};
    char byte = 0;
    return poll(&polled, 1, 20'000) == 1 && read(ends_[0], &byte, 1) == 1;
  }

 private:
  int ends_[2];
};

// Runs a function in a child process; its result is the exit code, and 99 an
// exception. Killed at the end if it still runs.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& work) {
    std::fflush(nullptr);  // or the child writes it once more
    pid_ = fork();
    if (pid_ != 0) return;
    int code = 99;
    try {
      code = work();
    } catch (const std::exception& error) {
      static_cast<void>(write(STDERR_FILENO, error.what(), std::string(error.what()).size()));
    }
    _exit(code);
  }
  ~ChildProcess() {
    if (pid_ > 0) kill_now();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void kill_now() {
    kill(pid_, SIGKILL);
    wait();
  }

  // The exit code, or minus the signal.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

// A database file of its own for each test.
class SqliteTest : public ::testing::Test {
 protected:
  std::shared_ptr<Store> open_store(Options options = {}) {
    options.durability = Durability::normal;
    return sqlite::open(path(), std::move(options));
  }
  std::string path() const { return directory_.file("outbox.db"); }
  std::string file(const std::string& name) const { return directory_.file(name); }

 private:
  test::TemporaryDirectory directory_;
};

}  // namespace outbox::sqlite
