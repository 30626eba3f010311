// Starts the processes, hurts them on a seeded schedule, and has them judged.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "observer.h"
#include "oracle.h"
#include "process.h"
#include "settings.h"

namespace outbox::chaos {

// What was done to the processes.
struct Faulted {
  int kills = 0;
  int writer_kills = 0;
  int receiver_kills = 0;
  int dispatcher_kills = 0;
  int owner_kills = 0;  // of those, the ones that could have had events in flight
  int stops = 0;
  int restarts = 0;  // asked to end, and started again
  int spared = 0;    // kills put off, see Supervisor::may_kill_a_dispatcher()
};

// Used by one thread, in a process that has no other.
class Supervisor {
 public:
  Supervisor(const Settings& settings, std::ostream& out);

  // The whole run. What went wrong besides the verdict (a process that ended by
  // itself, one that did not end) is in violations().
  Verdict run();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using Clock = std::chrono::steady_clock;

  // A place that is filled by one process after the other.
  struct Slot {
    Role role{};
    std::unique_ptr<Process> process{};
    bool stopped = false;
    std::optional<Clock::time_point> due{};  // when it is started or continued
  };

  void start(Slot& slot);
  void hurt();
  Slot& victim();
  void kill(Slot& slot);
  void stop(Slot& slot);
  void restart(Slot& slot);
  bool may_kill_a_dispatcher();
  void serve_until(Clock::time_point time);
  void heal();
  void end(Slot& slot);
  void drain();
  std::size_t duplicate_bound() const;
  void report_progress();
  void violation(std::string what);

  Clock::duration between(std::chrono::milliseconds least, std::chrono::milliseconds most);
  int dice(int sides);

  const Settings settings_;
  std::ostream& out_;
  Observer observer_;
  std::mt19937_64 random_;
  std::array<Slot, 2 + kDispatchers> slots_;
  int incarnations_ = 0;
  Faulted faulted_;
  std::vector<std::string> violations_;
};

}  // namespace outbox::chaos
