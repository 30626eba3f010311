#include "cli_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace outbox::e2e {
namespace {

constexpr int kDeadlineMs = 60'000;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// In the child: becomes the binary.
[[noreturn]] void become(const Arguments& arguments, const std::string& url,
                         const RunOptions& options) {
  setenv("OUTBOX_DB", url.c_str(), 1);
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv{const_cast<char*>("outbox")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(OUTBOX_PROGRAM, argv.data());
  _exit(127);
}

int exit_code(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

std::vector<Json> Result::json_lines() const {
  std::vector<Json> values;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) values.push_back(Json::parse(line));
  return values;
}

::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in:\n" << text;
}

::testing::AssertionResult lacks(const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is in:\n" << text;
}

Result CliTest::run(const Arguments& arguments, const RunOptions& options) const {
  const std::string in = file("stdin");
  const std::string out = file("stdout");
  const std::string err = file("stderr");
  std::ofstream(in, std::ios::binary) << options.input;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    become(arguments, url(), options);
  }
  const int code = exit_code(pid);
  return {.code = code, .out = contents(out), .err = contents(err)};
}

Result CliTest::run_at_terminal(const Arguments& arguments, const RunOptions& options) const {
  const winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) become(arguments, url(), options);
  if (!options.input.empty()) {
    EXPECT_EQ(write(terminal, options.input.data(), options.input.size()),
              static_cast<ssize_t>(options.input.size()));
  }
  Result result;
  while (true) {
    pollfd readable{.fd = terminal, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kDeadlineMs) <= 0) {
      ADD_FAILURE() << "no end after a minute of silence; so far:\n" << result.out;
      ::kill(pid, SIGKILL);
      break;
    }
    char buffer[4096];
    const ssize_t got = read(terminal, buffer, sizeof buffer);
    if (got <= 0) break;  // the other end is closed
    result.out.append(buffer, static_cast<std::size_t>(got));
  }
  result.code = exit_code(pid);
  close(terminal);
  return result;
}

std::string CliTest::publish(const std::string& type, const Arguments& more) const {
  store();
  Arguments arguments{"events", "publish", "--type", type};
  arguments.insert(arguments.end(), more.begin(), more.end());
  if (std::find(more.begin(), more.end(), "--payload") == more.end()) {
    arguments.insert(arguments.end(), {"--payload", "{}"});
  }
  Result result = run(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  if (!result.out.empty()) result.out.pop_back();
  return result.out;
}

StatusUpdate CliTest::update_of(const std::string& id, StatusUpdate::Kind kind) const {
  const auto record = store()->admin().find(id);
  if (!record) throw std::runtime_error("no event " + id);
  return {.row = record->row.ref, .event_id = id, .kind = kind};
}

void CliTest::update(const std::vector<StatusUpdate>& updates) const {
  const auto instance = store()->join({.name = "test"});
  const Lease lease = instance->renew();
  const UpdateResult result = instance->apply(lease.epoch, updates);
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  instance->leave();
}

void CliTest::kill(const std::string& id, const std::string& error) const {
  StatusUpdate dead = update_of(id, StatusUpdate::Kind::dead);
  dead.attempts = 10;
  dead.error = error;
  update({dead});
}

void CliTest::finish(const std::string& id) const {
  update({update_of(id, StatusUpdate::Kind::done)});
}

void CliTest::hold(const std::vector<std::string>& ids, const std::string& error) const {
  constexpr LaneKey kLane = 7;
  std::vector<StatusUpdate> updates;
  for (const std::string& id : ids) {
    StatusUpdate next =
        update_of(id, updates.empty() ? StatusUpdate::Kind::retry : StatusUpdate::Kind::hold);
    next.lane = kLane;
    if (updates.empty()) {
      next.attempts = 3;
      next.error = error;
      next.delay = std::chrono::hours{1};
    }
    updates.push_back(next);
  }
  update(updates);
}

void CliTest::sql(const std::string& statement) const {
  sqlite3* db = nullptr;
  sqlite3_open(database().c_str(), &db);
  sqlite3_busy_timeout(db, 20'000);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db, statement.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_free(message);
  sqlite3_close(db);
}

}  // namespace outbox::e2e
