// Starts the processes, hurts them on a seeded schedule, and has them judged.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harness/process.h"
#include "harness/verdict.h"
#include "observer.h"
#include "run_record.h"
#include "settings.h"
#include "surroundings.h"

namespace outbox::chaos {

// What was done to the processes.
struct Faulted {
  int kills = 0;
  int writer_kills = 0;
  int receiver_kills = 0;
  int dispatcher_kills = 0;
  int owner_kills = 0;  // of those, the ones that could have had events in flight
  int stops = 0;
  int long_stops = 0;  // of those, the dispatchers on a server that went on after their lease
  int restarts = 0;    // asked to end, and started again
  int restarts_of_stopped = 0;
  int spared = 0;  // kills delayed, see Supervisor::may_kill_a_dispatcher()
  int cuts = 0;    // of all connections; lost requests and replies are counted by the network
  int server_kills = 0;
  int promotions = 0;
  int freezes = 0;
  int isolations = 0;
};

// What can be done to servers.
enum class ServerFault { kill, promote, freeze, isolate };

// Used by one thread.
class Supervisor {
 public:
  // `surroundings` are those of a server, null on SQLite.
  Supervisor(const Settings& settings, Surroundings* surroundings, std::ostream& out);

  // The whole run. What went wrong besides the verdict (a process that ended by
  // itself, one that did not end) is in violations().
  harness::Verdict run();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using Clock = std::chrono::steady_clock;

  // A place that is filled by one process after the other.
  struct Slot {
    harness::Role role{};
    int incarnation = 0;
    std::unique_ptr<harness::Process> process{};
    bool stopped = false;
    Clock::time_point stopped_at{};
    std::optional<Clock::time_point> due{};  // when it is started or continued
  };

  void start(Slot& slot);
  void hurt();
  bool hurt_enough() const;
  bool server_is_due() const;
  void hurt_network();
  void hurt_server();
  void kill_server();
  void promote_another();
  void freeze_server();
  void isolate_server();
  void pause(std::chrono::milliseconds least, std::chrono::milliseconds most);
  void hurt_process();
  Slot& victim();
  void kill(Slot& slot);
  void stop(Slot& slot);
  void resume(Slot& slot);
  void restart(Slot& slot);
  bool owns(const Slot& slot);
  bool may_kill_a_dispatcher();
  void serve_until(Clock::time_point time);
  void heal();
  void end(Slot& slot);
  bool all_written() const;
  void drain();
  int cuts() const;
  std::size_t duplicate_bound(const std::vector<harness::Message>& arrivals);
  std::vector<harness::Attempt> attempts() const;
  RunRecord record(const harness::Verdict& verdict) const;
  void check_outcomes(const std::vector<harness::Committed>& committed);
  void report_progress();
  void violation(std::string what);

  Clock::duration between(std::chrono::milliseconds least, std::chrono::milliseconds most);
  int dice(int sides);

  const Settings settings_;
  Surroundings* const surroundings_;
  std::ostream& out_;
  const std::unique_ptr<Database> database_;
  Observer observer_;
  std::mt19937_64 random_;
  std::vector<Slot> slots_;  // the receiver, the writer, the dispatchers
  int incarnations_ = 0;
  Faulted faulted_;
  std::vector<ServerFault> server_faults_;  // in the order in which they come
  std::size_t server_faults_done_ = 0;

  // In microseconds since 1970: when commits may have been lost, or acknowledgements of
  // deliveries.
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<Span> losses_;
  std::vector<std::string> violations_;
};

}  // namespace outbox::chaos
