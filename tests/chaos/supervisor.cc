#include "supervisor.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <ostream>
#include <thread>
#include <utility>

#include "ledger.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// How long a process may take to end when it is asked to, and the dispatchers
// to deliver what is left.
constexpr milliseconds kEndTimeout{30'000};
constexpr milliseconds kDrainTimeout{60'000};
constexpr milliseconds kObserveInterval{10};

// How long a kill is put off for the sake of innocent suspects.
constexpr milliseconds kPatience{5'000};

// Stops are short against every timeout, apart from that of row claims.
constexpr milliseconds kShortestStop{30};
constexpr milliseconds kLongestStop{1'200};

std::size_t rolled_back(const std::string& directory) {
  std::size_t lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kRollbacks)) lines += read_lines(entry.path()).size();
  }
  return lines;
}

}  // namespace

Supervisor::Supervisor(const Settings& settings, std::ostream& out)
    : settings_(settings),
      out_(out),
      observer_(database_path(settings.directory)),
      random_(settings.seed) {
  slots_[0].role = Role::receiver;
  slots_[1].role = Role::writer;
  for (std::size_t n = 2; n < slots_.size(); ++n) slots_[n].role = Role::dispatcher;
}

int Supervisor::dice(int sides) {
  return std::uniform_int_distribution<int>{0, sides - 1}(random_);
}

Supervisor::Clock::duration Supervisor::between(milliseconds least, milliseconds most) {
  return milliseconds{
      std::uniform_int_distribution<milliseconds::rep>{least.count(), most.count()}(random_)};
}

void Supervisor::violation(std::string what) {
  out_ << "VIOLATION: " << what << std::endl;
  violations_.push_back(std::move(what));
}

Verdict Supervisor::run() {
  for (Slot& slot : slots_) start(slot);
  // Times, not conditions, decide when something is hurt: where a process is
  // then is what the run is about.
  const milliseconds pace = milliseconds(settings_.seconds) / std::max(1, settings_.kills * 4 / 3);
  while (faulted_.kills < settings_.kills) {
    serve_until(Clock::now() + between(pace / 4, pace * 7 / 4));
    if (!violations_.empty()) break;
    hurt();
  }
  heal();
  drain();

  const auto committed = observer_.committed();
  const auto arrivals = read_ledger(ledger_path(settings_.directory));
  Verdict verdict =
      judge(committed, arrivals,
            {.ordered = settings_.mode == Mode::ordered, .duplicate_bound = duplicate_bound()});
  verdict.dead = observer_.dead();
  verdict.pending = observer_.pending();
  for (const std::string& line : observer_.unfinished()) {
    verdict.examples.push_back("not done: " + line);
  }
  report_progress();
  return verdict;
}

void Supervisor::report_progress() {
  out_ << "kills " << faulted_.kills << " (writer " << faulted_.writer_kills << ", dispatchers "
       << faulted_.dispatcher_kills << " of which owners " << faulted_.owner_kills << ", receiver "
       << faulted_.receiver_kills << "), stops " << faulted_.stops << ", clean restarts "
       << faulted_.restarts << ", kills put off " << faulted_.spared << ", rolled back "
       << rolled_back(settings_.directory) << std::endl;
}

// --- Faults ---

void Supervisor::start(Slot& slot) {
  const int incarnation = ++incarnations_;
  const std::string log = settings_.directory + "/" + std::string(to_string(slot.role)) + "-" +
                          std::to_string(&slot - slots_.data()) + ".log";
  slot.process = std::make_unique<Process>(arguments_for(settings_, slot.role, incarnation), log);
  slot.stopped = false;
  slot.due.reset();
}

void Supervisor::hurt() {
  Slot& slot = victim();
  if (!slot.process) return;  // dead already, and about to come back
  const int kind = dice(20);
  if (kind < 15) {
    kill(slot);
  } else if (kind < 19) {
    stop(slot);
  } else {
    restart(slot);
  }
}

Supervisor::Slot& Supervisor::victim() {
  const int kind = dice(20);
  if (kind < 4) return slots_[0];
  if (kind < 8) return slots_[1];
  Slot& any = slots_[2 + static_cast<std::size_t>(dice(kDispatchers))];
  if (kind < 13) return any;
  // The one that stands by has nothing to lose: mostly hurt the other.
  const pid_t owner = observer_.owner();
  for (Slot& slot : slots_) {
    if (slot.process && slot.process->pid() == owner) return slot;
  }
  return any;
}

// An innocent event that is in flight at several deaths in a row would be taken
// for the killer (DEAD after two deaths in company and two alone), and rightly
// so. A real killer strikes again at once; this schedule is random, so it lets
// the dispatchers clear those that came near before it strikes again.
bool Supervisor::may_kill_a_dispatcher() {
  const auto deadline = Clock::now() + kPatience;
  while (observer_.most_crashes() >= 2) {
    if (Clock::now() >= deadline) return false;
    serve_until(Clock::now() + kObserveInterval);
  }
  return true;
}

void Supervisor::kill(Slot& slot) {
  const bool dispatcher = slot.role == Role::dispatcher;
  if (dispatcher && !may_kill_a_dispatcher()) {
    ++faulted_.spared;
    return;
  }
  if (!slot.process) return;
  // It may have become the owner, or the next one may have taken over, around
  // the kill: either answer counts.
  const pid_t pid = slot.process->pid();
  const bool owner = dispatcher && observer_.owner() == pid;
  slot.process->signal(SIGKILL);
  const auto ended = slot.process->wait(kEndTimeout);
  if (ended != "signal 9") {
    violation(std::string(to_string(slot.role)) + " ended with " + ended.value_or("nothing") +
              " instead of the kill");
  }
  slot.process.reset();
  slot.stopped = false;
  // Often at once; sometimes so late that both dispatchers are dead.
  slot.due = Clock::now() + between(0ms, dice(3) == 0 ? 400ms : 20ms);
  ++faulted_.kills;
  switch (slot.role) {
    case Role::writer:
      ++faulted_.writer_kills;
      break;
    case Role::receiver:
      ++faulted_.receiver_kills;
      break;
    case Role::dispatcher:
      ++faulted_.dispatcher_kills;
      if (owner || settings_.mode == Mode::claims || observer_.owner() == pid) {
        ++faulted_.owner_kills;
      }
      break;
    case Role::supervisor:
      break;
  }
}

void Supervisor::stop(Slot& slot) {
  if (slot.stopped) return;
  slot.process->signal(SIGSTOP);
  slot.stopped = true;
  slot.due = Clock::now() + between(kShortestStop, kLongestStop);
  ++faulted_.stops;
}

void Supervisor::restart(Slot& slot) {
  end(slot);
  start(slot);
  ++faulted_.restarts;
}

// Starts and continues what is due meanwhile.
void Supervisor::serve_until(Clock::time_point time) {
  for (;;) {
    Clock::time_point next = time;
    for (Slot& slot : slots_) {
      if (slot.process && !slot.stopped) {
        if (const auto ended = slot.process->wait(0ms)) {
          violation(std::string(to_string(slot.role)) + " ended by itself with " +
                    (ended->empty() ? "exit code 0" : *ended));
          slot.process.reset();
          slot.due = Clock::now();
        }
      }
      if (slot.due && *slot.due <= Clock::now()) {
        if (!slot.process) {
          start(slot);
        } else {
          slot.process->signal(SIGCONT);
          slot.stopped = false;
          slot.due.reset();
        }
      }
      if (slot.due) next = std::min(next, *slot.due);
    }
    if (Clock::now() >= time) return;
    std::this_thread::sleep_until(std::min(next, Clock::now() + kObserveInterval));
  }
}

// --- The end ---

void Supervisor::heal() {
  for (Slot& slot : slots_) {
    if (slot.due) slot.due = Clock::now();
  }
  serve_until(Clock::now());
}

void Supervisor::end(Slot& slot) {
  if (!slot.process) return;
  slot.process->signal(SIGCONT);
  slot.stopped = false;
  slot.due.reset();
  slot.process->signal(SIGTERM);
  const auto ended = slot.process->wait(kEndTimeout);
  if (!ended) {
    violation(std::string(to_string(slot.role)) + " did not end when it was asked to");
  } else if (!ended->empty()) {
    violation(std::string(to_string(slot.role)) + " ended with " + *ended);
  }
  slot.process.reset();
}

// The dispatchers that are there must deliver what is left: new ones might hide
// that the old ones were stuck.
void Supervisor::drain() {
  end(slots_[1]);
  for (std::size_t n = 2; n < slots_.size(); ++n) {
    if (slots_[n].process) slots_[n].process->signal(SIGUSR1);
  }
  const auto begin = Clock::now();
  while (observer_.pending() > 0 && Clock::now() < begin + kDrainTimeout) {
    serve_until(Clock::now() + kObserveInterval);
  }
  out_ << "drained in " << std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count()
       << " ms" << std::endl;
  for (std::size_t n = 2; n < slots_.size(); ++n) end(slots_[n]);
  end(slots_[0]);
}

// What the contract allows: at the death of a dispatcher, all that it held; at
// the death of the receiver, the calls that it had not answered. With row
// claims also what was held while a stop outlasted the lock timeout: any stop
// may, because one inside a transaction keeps everybody's marks out.
std::size_t Supervisor::duplicate_bound() const {
  const bool claims = settings_.mode == Mode::claims;
  const std::size_t delivering = claims ? kDispatchers : 1;
  const auto times = [](int n) { return static_cast<std::size_t>(n); };
  std::size_t bound = times(faulted_.owner_kills) * kCapacity +
                      times(faulted_.receiver_kills) * delivering * kWorkers;
  if (claims) bound += times(faulted_.stops + faulted_.kills) * delivering * kCapacity;
  return bound;
}

}  // namespace outbox::chaos
