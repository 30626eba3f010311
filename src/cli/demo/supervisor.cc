#include "cli/demo/supervisor.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGKILL is POSIX

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using State = RoleStatus::State;
using std::chrono::milliseconds;

// Long enough to be seen, short enough not to bore.
constexpr milliseconds kRestartAfter{500};
constexpr int kMaxFailures = 3;
constexpr std::size_t kLogLines = 8;

std::vector<std::string> command(const char* name, const RunDirectory& directory) {
  return {name, "--folder", directory.folder.string(), "--database", directory.database.string()};
}

std::string describe(const harness::ExitStatus& status) {
  const std::string how = to_string(status);
  return status.signal != 0 ? "was killed (" + how + ")" : "ended with " + how;
}

}  // namespace

const char* to_string(State state) {
  switch (state) {
    case State::waiting:
      return "waiting";
    case State::starting:
      return "starting";
    case State::up:
      return "up";
    case State::restarting:
      return "restarting";
    case State::broken:
      return "broken";
    case State::stopped:
      break;
  }
  return "stopped";
}

Supervisor::Supervisor(WriterOptions writer, DispatcherOptions dispatcher,
                       ReceiverOptions receiver) {
  slot(Role::writer).command = command("demo-writer", writer.directory);
  for (std::string word : {std::string("--seed"), std::to_string(writer.seed),
                           std::string("--rate"), std::to_string(writer.rate)}) {
    slot(Role::writer).command.push_back(std::move(word));
  }
  slot(Role::dispatcher).command = command("demo-dispatcher", dispatcher.directory);
  slot(Role::receiver).command = command("demo-receiver", receiver.directory);
  if (receiver.forget_one) slot(Role::receiver).command.emplace_back("--forget-one");
}

void Supervisor::start(Role role) {
  Slot& at = slot(role);
  at.output = std::make_unique<harness::OutputPipe>();
  at.process = std::make_unique<harness::Process>(at.command, at.output->take_input());
  at.status.state = State::starting;
  at.status.pid = at.process->pid();
}

void Supervisor::kill_dispatcher() {
  Slot& at = slot(Role::dispatcher);
  if (at.status.state != State::starting && at.status.state != State::up) return;
  ++kills_;
  at.status.state = State::restarting;
  at.restart_at = Moment::clock::now() + kRestartAfter;
  at.process->signal(SIGKILL);
}

void Supervisor::break_receiver() {
  Slot& at = slot(Role::receiver);
  if (!at.process || at.status.state == State::stopped) return;
  ++kills_;
  at.status.state = State::broken;
  at.process->signal(SIGKILL);
}

void Supervisor::heal_receiver() {
  Slot& at = slot(Role::receiver);
  if (at.status.state != State::broken) return;
  at.status.state = State::restarting;
  at.restart_at = Moment::clock::now();
}

bool Supervisor::receiver_is_broken() const {
  return status(Role::receiver).state == State::broken;
}

void Supervisor::stop(Role role) {
  Slot& at = slot(role);
  at.status.state = State::stopped;
  if (at.process) at.process->signal(SIGTERM);
}

void Supervisor::kill(Role role) {
  Slot& at = slot(role);
  at.status.state = State::stopped;
  if (at.process) at.process->signal(SIGKILL);
}

void Supervisor::step(std::span<pollfd> others, milliseconds timeout) {
  std::vector<pollfd> all(others.begin(), others.end());
  for (const Role role : kRoles) {
    const Slot& at = slot(role);
    // A negative descriptor is skipped by poll.
    all.push_back({.fd = at.output ? at.output->descriptor() : -1, .events = POLLIN, .revents = 0});
    if (at.status.state == State::restarting && !at.process) {
      const auto left = std::chrono::ceil<milliseconds>(at.restart_at - Moment::clock::now());
      timeout = std::clamp(left, milliseconds{0}, timeout);
    }
  }
  if (poll(all.data(), all.size(), static_cast<int>(timeout.count())) > 0) {
    std::copy_n(all.begin(), others.size(), others.begin());
    for (std::size_t n = 0; n < kRoles.size(); ++n) {
      if (all[others.size() + n].revents != 0) read_from(kRoles[n]);
    }
  }
  restart_due();
}

void Supervisor::read_from(Role role) {
  std::vector<std::string> lines;
  const bool alive = slot(role).output->read(lines);
  for (const std::string& line : lines) handle(role, Report::parse(line));
  if (!alive) reap(role);
}

void Supervisor::handle(Role role, const Report& report) {
  Slot& at = slot(role);
  if (report.kind == Report::Kind::log) {
    note(role, report.text);
  } else if (report.kind == Report::Kind::ready) {
    if (at.status.state == State::starting) at.status.state = State::up;
    at.failures = 0;
  } else {
    stats_.add(report);
  }
}

void Supervisor::note(Role role, const std::string& text) {
  log_.push_back({Moment::clock::now(), std::string(to_string(role)) + ": " + printable(text)});
  if (log_.size() > kLogLines) log_.pop_front();
}

void Supervisor::reap(Role role) {
  Slot& at = slot(role);
  const harness::ExitStatus exit_status = at.process->wait();
  at.process.reset();
  at.output.reset();
  at.status.pid = 0;
  if (at.status.state == State::stopped) return;
  const std::string last_words = log_.empty() ? "none" : log_.back().text;
  note(role, "it " + describe(exit_status));
  if (at.status.state == State::broken) return;
  if (at.status.state == State::starting && ++at.failures >= kMaxFailures) {
    throw UnavailableError(std::string("the ") + to_string(role) + " does not start: it " +
                           describe(exit_status) + " " + std::to_string(kMaxFailures) +
                           " times; the last words were: " + last_words);
  }
  if (at.status.state != State::restarting) {
    unexpected_exits_.push_back(std::string("the ") + to_string(role) + ' ' +
                                describe(exit_status));
    at.status.state = State::restarting;
    at.restart_at = Moment::clock::now() + kRestartAfter;
  }
}

void Supervisor::restart_due() {
  for (const Role role : kRoles) {
    Slot& at = slot(role);
    if (at.status.state != State::restarting || at.process) continue;
    if (Moment::clock::now() < at.restart_at) continue;
    start(role);
    ++at.status.restarts;
  }
}

}  // namespace outbox::demo
