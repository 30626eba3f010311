#include "supervisor.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <thread>
#include <unordered_set>
#include <utility>

#include "harness/ledger.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// How long a process may take to end when it is asked to, and the dispatchers
// to deliver the next of what is left.
constexpr milliseconds kEndTimeout{60'000};
constexpr milliseconds kDrainTimeout{120'000};
constexpr milliseconds kObserveInterval{10};

// How long a kill is delayed for the sake of innocent candidates.
constexpr milliseconds kPatience{5'000};

// Short against every timeout, apart from that of row claims on SQLite; or long
// against a lease.
constexpr milliseconds kShortestStop{30};
constexpr milliseconds kLongestStop{1'200};
constexpr milliseconds kShortestBeyondTheLease{500};
constexpr milliseconds kLongestBeyondTheLease{2'000};

// For how long the server stays down, besides the time that it needs.
constexpr milliseconds kLongestOutage{1'500};

// For how long a standby lags before its primary is lost, a primary that was frozen believes
// that it still is one, and a server is isolated.
constexpr milliseconds kShortestLag{300};
constexpr milliseconds kLongestLag{1'500};
constexpr milliseconds kLongestDoubt{1'500};
constexpr milliseconds kShortestIsolation{1'000};
constexpr milliseconds kLongestIsolation{9'000};

// Patroni promotes another one after 20 s.
constexpr milliseconds kPatroniFreeze{37'000};

// What the processes do on the servers as they are at the end.
constexpr milliseconds kAfterFailovers{4'000};

std::int64_t now_in_microseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool by_patroni(const Settings& settings) {
  return settings.servers == Servers::patroni || settings.servers == Servers::patroni_sync;
}

// Evenly mixed: none of a kind comes again before one of each other kind that is left.
std::vector<ServerFault> server_faults(const Settings& settings) {
  std::vector<ServerFault> faults;
  const std::array<std::pair<ServerFault, int>, 4> kinds{
      {{ServerFault::kill, settings.server_kills},
       {ServerFault::promote, settings.promotions},
       {ServerFault::freeze, settings.freezes},
       {ServerFault::isolate, settings.isolations}}};
  for (int round = 0;; ++round) {
    const std::size_t before = faults.size();
    for (const auto& [kind, number] : kinds) {
      if (round < number) faults.push_back(kind);
    }
    if (faults.size() == before) return faults;
  }
}

// Of all files of that kind.
std::vector<std::string> lines_of(std::string_view kind, const std::string& directory) {
  std::vector<std::string> lines;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kind)) continue;
    for (std::string& line : harness::read_lines(entry.path())) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

Supervisor::Supervisor(const Settings& settings, Surroundings* surroundings, std::ostream& out)
    : settings_(settings),
      surroundings_(surroundings),
      out_(out),
      database_(database_of(around_the_network(settings))),
      observer_(*database_),
      random_(settings.seed),
      slots_(2 + static_cast<std::size_t>(dispatchers(settings))) {
  if (surroundings_ != nullptr) {
    observer_.note_registrations();
    server_faults_ = server_faults(settings);
  }
  slots_[0].role = harness::Role::receiver;
  slots_[1].role = harness::Role::writer;
  for (std::size_t n = 2; n < slots_.size(); ++n) slots_[n].role = harness::Role::dispatcher;
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

harness::Verdict Supervisor::run() {
  for (Slot& slot : slots_) start(slot);
  // Times, not conditions, decide when something is hurt: where a process is
  // then is what the run is about.
  int faults = settings_.kills * 4 / 3 + (surroundings_ != nullptr ? settings_.cuts * 3 / 2 : 0);
  if (faults == 0) faults = static_cast<int>(server_faults_.size());
  const milliseconds pace = milliseconds(settings_.seconds) / std::max(1, faults);
  while (!hurt_enough()) {
    serve_until(Clock::now() + between(pace / 4, pace * 7 / 4));
    if (!violations_.empty()) break;
    hurt();
  }
  heal();
  if (settings_.servers != Servers::one) serve_until(Clock::now() + kAfterFailovers);
  drain();

  const auto committed = observer_.committed();
  const auto arrivals = harness::read_messages(ledger_path(settings_.directory));
  const harness::Expected expected{.ordered = settings_.mode == Mode::ordered,
                                   .duplicate_bound = duplicate_bound(arrivals),
                                   .may_lose_commits = may_lose_commits(settings_),
                                   .epochs = settings_.mode != Mode::claims};
  harness::Verdict verdict = harness::judge(committed, arrivals, expected, attempts());
  verdict.dead = observer_.dead();
  verdict.pending = observer_.pending();
  for (const std::string& line : observer_.unfinished()) {
    verdict.examples.push_back("not done: " + line);
  }
  check_outcomes(committed);
  report_progress();
  if (!settings_.record.empty()) append_record(settings_.record, record(verdict));
  return verdict;
}

std::vector<harness::Attempt> Supervisor::attempts() const {
  std::vector<harness::Attempt> result;
  for (const auto& entry : std::filesystem::directory_iterator(settings_.directory)) {
    if (!entry.path().filename().string().starts_with(kAttempts)) continue;
    for (harness::Attempt& attempt : parse_attempts(harness::read_lines(entry.path()))) {
      result.push_back(std::move(attempt));
    }
  }
  return result;
}

// The code, the database, what was done to it, and what came of that.
RunRecord Supervisor::record(const harness::Verdict& verdict) const {
  RunRecord columns{{"commit", settings_.commit},
                    {"run", description_of(settings_)},
                    {"store", std::string(to_string(settings_.store))},
                    {"servers", std::string(to_string(settings_.servers))},
                    {"mode", std::string(to_string(settings_.mode))},
                    {"seed", std::to_string(settings_.seed)}};
  const auto add = [&columns](const char* name, auto value) {
    columns.emplace_back(name, std::to_string(value));
  };
  const test::CommitCuts cut =
      surroundings_ != nullptr ? surroundings_->network().commit_cuts() : test::CommitCuts{};
  add("kills", faulted_.kills);
  add("server kills", faulted_.server_kills);
  add("promotions", faulted_.promotions);
  add("freezes", faulted_.freezes);
  add("stops beyond the lease", faulted_.long_stops);
  add("isolations", faulted_.isolations);
  add("cuts", surroundings_ != nullptr ? cuts() : 0);
  add("commits cut before", cut.before);
  add("commits cut during", cut.during);
  add("commits cut after", cut.after);
  add("committed", verdict.committed);
  add("commits lost", verdict.commits_lost);
  add("lost", verdict.lost);
  add("ghosts", verdict.ghosts);
  add("ghosts of lost commits", verdict.ghosts_of_lost_commits);
  add("repeats", verdict.duplicates);
  add("order breaks", verdict.order_breaks);
  add("double owners", verdict.double_owners);
  add("misreported", verdict.misreported);
  add("longest pause (ms)", verdict.longest_pause_ms);
  add("pending", verdict.pending);
  add("dead", verdict.dead);
  columns.emplace_back("verdict", verdict.clean() && violations_.empty() ? "clean" : "violated");
  return columns;
}

void Supervisor::report_progress() {
  out_ << "kills " << faulted_.kills << " (writer " << faulted_.writer_kills << ", dispatchers "
       << faulted_.dispatcher_kills << " of which owners " << faulted_.owner_kills << ", receiver "
       << faulted_.receiver_kills << "), stops " << faulted_.stops << ", clean restarts "
       << faulted_.restarts << ", kills delayed " << faulted_.spared << ", rolled back "
       << lines_of(kRollbacks, settings_.directory).size() << std::endl;
  if (surroundings_ == nullptr) return;
  const test::CommitCuts cut = surroundings_->network().commit_cuts();
  out_ << "cuts " << cuts() << " (of all connections " << faulted_.cuts << "; COMMITs cut before "
       << cut.before << ", during " << cut.during << ", after " << cut.after
       << "), kills of the server " << faulted_.server_kills << ", promotions "
       << faulted_.promotions << ", freezes " << faulted_.freezes << ", isolations "
       << faulted_.isolations << ", stops beyond the lease " << faulted_.long_stops
       << ", leases lost " << observer_.lost_leases() << ", unknown outcomes "
       << lines_of(kOutcomes, settings_.directory).size() << std::endl;
}

// A writer that did not hear whether a transaction happened has asked; the table must
// still say the same.
void Supervisor::check_outcomes(const std::vector<harness::Committed>& committed) {
  std::unordered_set<std::string> there;
  for (const harness::Committed& row : committed) there.insert(row.id);
  for (const std::string& line : lines_of(kOutcomes, settings_.directory)) {
    const Resolved outcome = parse_outcome(line);
    if (there.contains(outcome.id) == outcome.happened) continue;
    if (outcome.happened && may_lose_commits(settings_)) continue;
    violation("a writer was told that its transaction was" +
              std::string(outcome.happened ? "" : " not") +
              " committed, which is not so: " + outcome.id);
  }
}

// --- Faults ---

void Supervisor::start(Slot& slot) {
  slot.incarnation = ++incarnations_;
  const std::string log = settings_.directory + "/" + to_string(slot.role) + "-" +
                          std::to_string(&slot - slots_.data()) + ".log";
  Settings settings = settings_;
  settings.wrong_clock = surroundings_ != nullptr && &slot == &slots_[2];
  slot.process = std::make_unique<harness::Process>(
      arguments_for(settings, slot.role, slot.incarnation), harness::append_to(log));
  slot.stopped = false;
  slot.due.reset();
}

bool Supervisor::hurt_enough() const {
  if (faulted_.kills < settings_.kills) return false;
  if (surroundings_ == nullptr) return true;
  return cuts() >= settings_.cuts && server_faults_done_ == server_faults_.size();
}

int Supervisor::cuts() const { return faulted_.cuts + surroundings_->network().drops(); }

void Supervisor::hurt() {
  if (surroundings_ != nullptr) {
    if (server_is_due()) return hurt_server();
    const int kills_left = std::max(0, settings_.kills - faulted_.kills) * 4 / 3;
    const int cuts_left = std::max(0, settings_.cuts - cuts());
    if (dice(std::max(1, kills_left + cuts_left)) >= kills_left) return hurt_network();
  }
  hurt_process();
}

// At even distances in the run.
bool Supervisor::server_is_due() const {
  if (server_faults_done_ == server_faults_.size()) return false;
  const int hurt = std::min(faulted_.kills, settings_.kills) + std::min(cuts(), settings_.cuts);
  const int all = settings_.kills + settings_.cuts;
  return hurt * static_cast<int>(server_faults_.size() + 1) >=
         all * static_cast<int>(server_faults_done_ + 1);
}

// All connections, or that of the next COMMIT of any process.
void Supervisor::hurt_network() {
  test::TcpProxy& network = surroundings_->network();
  switch (dice(4)) {
    case 0:
      network.cut();
      ++faulted_.cuts;
      break;
    case 1:
      network.cut_commit(test::CommitCut::before);
      break;
    case 2:
      network.cut_commit(test::CommitCut::during);
      break;
    default:
      network.cut_commit(test::CommitCut::after);
      break;
  }
}

// Nobody is started or continued meanwhile: some stops last longer.
void Supervisor::hurt_server() {
  // An instance that is declared dead leaves candidates behind, too.
  if (!may_kill_a_dispatcher()) {
    ++faulted_.spared;
    return;
  }
  const std::int64_t begin = now_in_microseconds();
  switch (server_faults_[server_faults_done_++]) {
    case ServerFault::kill:
      kill_server();
      break;
    case ServerFault::promote:
      promote_another();
      break;
    case ServerFault::freeze:
      freeze_server();
      break;
    case ServerFault::isolate:
      isolate_server();
      break;
  }
  out_ << "server fault " << server_faults_done_ << " of " << server_faults_.size() << " took "
       << (now_in_microseconds() - begin) / 1'000 << " ms" << std::endl;
  losses_.push_back({.begin = begin, .end = now_in_microseconds()});
}

void Supervisor::pause(milliseconds least, milliseconds most) {
  std::this_thread::sleep_for(between(least, most));
}

void Supervisor::kill_server() {
  surroundings_->server().kill();
  pause(0ms, kLongestOutage);
  surroundings_->server().start();
  ++faulted_.server_kills;
}

// Where commits may be lost, some are.
void Supervisor::promote_another() {
  Server& server = surroundings_->server();
  if (settings_.servers == Servers::async) {
    server.isolate();
    pause(kShortestLag, kLongestLag);
  }
  server.kill();
  pause(0ms, kLongestOutage);
  server.promote();
  pause(0ms, kLongestOutage);
  server.follow();
  ++faulted_.promotions;
}

// Who freezes does not know that it is the primary no more when it goes on, for as long as
// it takes to tell it.
void Supervisor::freeze_server() {
  Server& server = surroundings_->server();
  const bool pair = settings_.servers == Servers::sync || settings_.servers == Servers::async;
  server.freeze();
  if (by_patroni(settings_)) {
    std::this_thread::sleep_for(kPatroniFreeze);
    server.promote();
  } else {
    pause(settings_.lease + kShortestBeyondTheLease, settings_.lease + kLongestBeyondTheLease);
    if (pair) server.promote();
    pause(0ms, kLongestOutage);
  }
  server.thaw();
  if (pair) {
    pause(0ms, kLongestDoubt);
    server.follow();
  }
  ++faulted_.freezes;
}

void Supervisor::isolate_server() {
  surroundings_->server().isolate();
  pause(kShortestIsolation, kLongestIsolation);
  surroundings_->server().rejoin();
  ++faulted_.isolations;
}

void Supervisor::hurt_process() {
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
  Slot& any = slots_[2 + static_cast<std::size_t>(dice(dispatchers(settings_)))];
  if (kind < 13) return any;
  // The standby has nothing to lose: mostly hurt the other.
  if (surroundings_ != nullptr) return any;
  for (Slot& slot : slots_) {
    if (owns(slot)) return slot;
  }
  return any;
}

bool Supervisor::owns(const Slot& slot) {
  if (!slot.process) return false;
  const std::vector<pid_t> owners = observer_.owners();
  return std::find(owners.begin(), owners.end(), slot.process->pid()) != owners.end();
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
  const bool dispatcher = slot.role == harness::Role::dispatcher;
  if (dispatcher && !may_kill_a_dispatcher()) {
    ++faulted_.spared;
    return;
  }
  if (!slot.process) return;
  // It may have become the owner, or the next one may have taken over, around
  // the kill: either answer counts.
  const bool owned = dispatcher && owns(slot);
  slot.process->signal(SIGKILL);
  const auto ended = slot.process->wait(kEndTimeout);
  if (ended != harness::kKilled) {
    violation(std::string(to_string(slot.role)) + " ended with " + to_string(ended) +
              " instead of the kill");
  }
  const bool owner = owned || (dispatcher && owns(slot));
  slot.process.reset();
  slot.stopped = false;
  // Often at once; sometimes so late that both dispatchers are dead.
  slot.due = Clock::now() + between(0ms, dice(3) == 0 ? 400ms : 20ms);
  ++faulted_.kills;
  switch (slot.role) {
    case harness::Role::writer:
      ++faulted_.writer_kills;
      break;
    case harness::Role::receiver:
      ++faulted_.receiver_kills;
      break;
    case harness::Role::dispatcher:
      ++faulted_.dispatcher_kills;
      if (owner || surroundings_ != nullptr || settings_.mode == Mode::claims) {
        ++faulted_.owner_kills;
      }
      break;
  }
}

void Supervisor::stop(Slot& slot) {
  if (slot.stopped) return;
  const bool outlasts = surroundings_ != nullptr && slot.role == harness::Role::dispatcher &&
                        dice(2) == 0 && may_kill_a_dispatcher();
  if (!slot.process) return;
  slot.process->signal(SIGSTOP);
  slot.stopped = true;
  slot.stopped_at = Clock::now();
  slot.due = Clock::now() +
             (outlasts ? settings_.lease + between(kShortestBeyondTheLease, kLongestBeyondTheLease)
                       : between(kShortestStop, kLongestStop));
  ++faulted_.stops;
}

// Only who goes on after its lease can do harm; who was killed meanwhile does not count.
void Supervisor::resume(Slot& slot) {
  const bool outlasted = slot.stopped && surroundings_ != nullptr &&
                         slot.role == harness::Role::dispatcher &&
                         Clock::now() - slot.stopped_at > settings_.lease;
  faulted_.long_stops += outlasted ? 1 : 0;
  slot.process->signal(SIGCONT);
  slot.stopped = false;
  slot.due.reset();
}

void Supervisor::restart(Slot& slot) {
  faulted_.restarts_of_stopped += slot.stopped ? 1 : 0;
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
                    to_string(ended));
          slot.process.reset();
          slot.due = Clock::now();
        }
      }
      if (slot.due && *slot.due <= Clock::now()) {
        if (!slot.process) {
          start(slot);
        } else {
          resume(slot);
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
  resume(slot);
  slot.process->signal(SIGTERM);
  // The others go on meanwhile: it may wait for a lock of one that was stopped inside a
  // transaction.
  const auto process = std::move(slot.process);
  auto ended = process->wait(0ms);
  for (const auto deadline = Clock::now() + kEndTimeout; !ended && Clock::now() < deadline;) {
    serve_until(Clock::now() + kObserveInterval);
    ended = process->wait(0ms);
  }
  if (!ended) {
    violation(std::string(to_string(slot.role)) + " did not end when it was asked to");
  } else if (!ended->success()) {
    violation(std::string(to_string(slot.role)) + " ended with " + to_string(ended));
  }
}

// Whether the application's part of every dispatcher has come to its end.
bool Supervisor::all_written() const {
  return std::all_of(slots_.begin() + 2, slots_.end(), [&](const Slot& slot) {
    Settings settings = settings_;
    settings.incarnation = slot.incarnation;
    return std::filesystem::exists(path_of(kFinished, settings, 0));
  });
}

// The dispatchers that are there must deliver what is left: new ones might hide
// that the old ones were stuck.
void Supervisor::drain() {
  end(slots_[1]);
  for (std::size_t n = 2; n < slots_.size(); ++n) {
    if (slots_[n].process) slots_[n].process->signal(SIGUSR1);
  }
  const auto begin = Clock::now();
  // A long backlog may take its time, as long as it gets shorter.
  auto progressed = begin;
  for (std::size_t least = SIZE_MAX;;) {
    const bool written = all_written();  // before it is counted what is left
    const std::size_t pending = observer_.pending();
    if (written && pending == 0) break;
    if (pending < least) progressed = Clock::now();
    least = std::min(least, pending);
    if (Clock::now() >= progressed + kDrainTimeout) break;
    serve_until(Clock::now() + kObserveInterval);
  }
  out_ << "drained in " << std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count()
       << " ms" << std::endl;
  for (std::size_t n = 2; n < slots_.size(); ++n) end(slots_[n]);
  end(slots_[0]);
}

// What the contract allows: at the death of a dispatcher, all that it held; at
// the death of the receiver, the calls that it had not answered. On servers
// also what was held when a lease was lost (a stopped one that is restarted may
// not have noticed). A connection that is cut allows none: the updates go on.
// With row claims also what was held while anything outlasted the lock timeout,
// as any stop on SQLite may, because one inside a transaction keeps everybody's
// updates out, and as the loss of the server or of a connection may elsewhere.
// A failover may outlast everybody's lease; and a database that loses commits loses
// the updates of all that was delivered meanwhile.
std::size_t Supervisor::duplicate_bound(const std::vector<harness::Message>& arrivals) {
  const bool claims = settings_.mode == Mode::claims;
  const std::size_t delivering = claims || surroundings_ != nullptr ? slots_.size() - 2 : 1;
  const auto times = [](int n) { return static_cast<std::size_t>(n); };
  std::size_t bound = times(faulted_.owner_kills) * kCapacity +
                      times(faulted_.receiver_kills) * delivering * kWorkers;
  if (surroundings_ != nullptr) {
    bound += (observer_.lost_leases() + times(faulted_.restarts_of_stopped)) * kCapacity;
  }
  if (claims) {
    bound +=
        times(faulted_.stops + faulted_.kills + faulted_.server_kills) * delivering * kCapacity;
  }
  bound +=
      times(faulted_.promotions + faulted_.freezes + faulted_.isolations) * delivering * kCapacity;
  if (!may_lose_commits(settings_)) return bound;
  return bound + static_cast<std::size_t>(std::count_if(
                     arrivals.begin(), arrivals.end(), [this](const harness::Message& arrival) {
                       return std::any_of(losses_.begin(), losses_.end(), [&](const Span& span) {
                         return span.begin <= arrival.at && arrival.at <= span.end;
                       });
                     }));
}

}  // namespace outbox::chaos
