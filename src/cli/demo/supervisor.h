// The processes of one demo: starts them, restarts them, breaks them.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/demo/demo.h"
#include "cli/demo/report.h"
#include "harness/process.h"

namespace outbox::demo {

using harness::Role;
inline constexpr std::array kRoles{Role::writer, Role::dispatcher, Role::receiver};

struct RoleStatus {
  enum class State : std::uint8_t { waiting, starting, up, restarting, broken, stopped };

  State state = State::waiting;
  pid_t pid = 0;     // while starting or up
  int restarts = 0;  // how often it came back
};

const char* to_string(RoleStatus::State state);

struct LogLine {
  Moment at{};
  std::string text{};
};

// Whoever dies is started again after a moment, unless it was broken on purpose
// or told to stop. Not thread-safe.
class Supervisor {
 public:
  Supervisor(WriterOptions writer, DispatcherOptions dispatcher, ReceiverOptions receiver);

  void start(Role role);
  void kill_dispatcher();
  void break_receiver();
  void heal_receiver();
  bool receiver_is_broken() const;

  // Asks it to end by itself; kill() does not ask.
  void stop(Role role);
  void kill(Role role);

  // Waits until something happens or the time is over, and takes notice of it.
  // `others` are polled along. Throws UnavailableError if a process keeps dying
  // before it is ready.
  void step(std::span<pollfd> others, std::chrono::milliseconds timeout);

  const RoleStatus& status(Role role) const { return slot(role).status; }
  const Stats& stats() const { return stats_; }

  // The last lines, the newest at the end.
  const std::deque<LogLine>& log() const { return log_; }
  int kills() const { return kills_; }

  // Deaths that nobody here had ordered; each with who and how.
  const std::vector<std::string>& unexpected_exits() const { return unexpected_exits_; }

 private:
  struct Slot {
    std::vector<std::string> command{};
    RoleStatus status{};
    std::unique_ptr<harness::Process> process{};
    std::unique_ptr<harness::OutputPipe> output{};  // of the process
    Moment restart_at{};
    int failures = 0;  // deaths before it was ready, in a row
  };

  Slot& slot(Role role) { return slots_.at(static_cast<std::size_t>(role)); }
  const Slot& slot(Role role) const { return slots_.at(static_cast<std::size_t>(role)); }
  void read_from(Role role);
  void handle(Role role, const Report& report);
  void note(Role role, const std::string& text);
  void reap(Role role);
  void restart_due();

  std::array<Slot, kRoles.size()> slots_{};
  Stats stats_;
  std::deque<LogLine> log_;
  int kills_ = 0;
  std::vector<std::string> unexpected_exits_;
};

}  // namespace outbox::demo
