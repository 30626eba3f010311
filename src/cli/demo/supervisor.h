// The processes of one demo: starts them, restarts them, breaks them, and counts what they tell.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/demo/shop.h"
#include "harness/process.h"

namespace outbox::demo {

inline constexpr std::array kRoles{Role::writer, Role::dispatcher, Role::receiver};

struct RoleStatus {
  enum class State : std::uint8_t { waiting, starting, up, restarting, broken, stopped };

  State state = State::waiting;
  pid_t pid = 0;     // while starting or up
  int restarts = 0;  // how often it came back
};

struct Figures {
  std::int64_t committed = 0;
  std::int64_t rolled_back = 0;
  std::int64_t delivered = 0;
  std::int64_t duplicates = 0;
  std::int64_t pending = 0;

  // In the last second.
  std::int64_t commit_rate = 0;
  std::int64_t delivery_rate = 0;

  // From COMMIT's return to the receiver, over the last deliveries.
  std::optional<std::chrono::microseconds> p50{};
  std::optional<std::chrono::microseconds> p99{};
};

// What the processes have told so far, for the screen. The verdict does not rest on it: a killed
// process takes its last words along. Not thread-safe.
class Stats {
 public:
  void add(const Report& report);
  Figures figures(Moment now) const;

 private:
  void delivered(Moment committed, Moment received);

  Figures totals_;
  std::unordered_map<std::string, Moment> under_way_;  // committed, not yet received
  std::unordered_map<std::string, Moment> early_;      // received before the writer said so
  std::deque<Moment> commits_;                         // of the last second
  std::deque<std::pair<Moment, std::chrono::microseconds>> latencies_;
};

struct LogLine {
  Moment at{};
  std::string text{};
};

// A process that dies is started again after a moment, unless it was broken on purpose
// or told to stop. Not thread-safe.
class Supervisor {
 public:
  explicit Supervisor(const RunOptions& options);

  void start(Role role);
  void kill_dispatcher();
  void break_receiver();
  void heal_receiver();

  // Ends it with that signal; it is not started again.
  void stop(Role role, int signal);

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
