#include "cli/demo/supervisor.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): SIGKILL is POSIX

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "cli/output/text.h"
#include "outbox/error.h"

namespace outbox::demo {
namespace {

using State = RoleStatus::State;
using Kind = Report::Kind;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Long enough to be seen, short enough not to bore.
constexpr milliseconds kRestartAfter{500};
constexpr int kMaxFailures = 3;
constexpr std::size_t kLogLines = 8;

constexpr auto kRateWindow = std::chrono::seconds{1};
constexpr auto kLatencyWindow = std::chrono::seconds{3};

std::vector<std::string> command(Role role, const RunOptions& options) {
  std::vector<std::string> words{std::string("demo-") + harness::to_string(role),
                                 "--folder",
                                 options.directory.folder.string(),
                                 "--database",
                                 options.directory.database.string(),
                                 "--seed",
                                 std::to_string(options.seed),
                                 "--rate",
                                 std::to_string(options.rate)};
  if (options.forget_one) words.emplace_back("--forget-one");
  return words;
}

std::string describe(const harness::ExitStatus& status) {
  const std::string how = to_string(status);
  return status.signal != 0 ? "was killed (" + how + ")" : "ended with " + how;
}

}  // namespace

// --- Stats ---

void Stats::add(const Report& report) {
  switch (report.kind) {
    case Kind::committed:
      ++totals_.committed;
      commits_.push_back(report.at);
      while (commits_.front() < report.at - kRateWindow) commits_.pop_front();
      if (const auto early = early_.find(report.id); early != early_.end()) {
        delivered(report.at, early->second);
        early_.erase(early);
      } else {
        under_way_.emplace(report.id, report.at);
      }
      break;
    case Kind::rolled_back:
      ++totals_.rolled_back;
      break;
    case Kind::duplicate:
      ++totals_.duplicates;
      [[fallthrough]];  // the first receipt's report may have died with its process
    case Kind::received:
      if (const auto commit = under_way_.find(report.id); commit != under_way_.end()) {
        delivered(commit->second, report.at);
        under_way_.erase(commit);
      } else if (report.kind == Kind::received) {
        early_.emplace(report.id, report.at);
      }
      break;
    case Kind::ready:
    case Kind::log:
      break;
  }
}

void Stats::delivered(Moment committed, Moment received) {
  ++totals_.delivered;
  // COMMIT may return to the writer after the event is at the receiver.
  const auto latency = std::max(received - committed, Moment::duration::zero());
  latencies_.emplace_back(received, std::chrono::duration_cast<microseconds>(latency));
  while (latencies_.front().first < received - kLatencyWindow) latencies_.pop_front();
}

Figures Stats::figures(Moment now) const {
  Figures result = totals_;
  result.pending = static_cast<std::int64_t>(under_way_.size());
  result.commit_rate = std::count_if(commits_.begin(), commits_.end(),
                                     [&](Moment at) { return at > now - kRateWindow; });
  std::vector<microseconds> recent;
  for (const auto& [received, latency] : latencies_) {
    if (received > now - kRateWindow) ++result.delivery_rate;
    if (received > now - kLatencyWindow) recent.push_back(latency);
  }
  result.p50 = cli::percentile(recent, 50);
  result.p99 = cli::percentile(std::move(recent), 99);
  return result;
}

// --- Supervisor ---

Supervisor::Supervisor(const RunOptions& options) {
  for (const Role role : kRoles) slot(role).command = command(role, options);
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

void Supervisor::stop(Role role, int signal) {
  Slot& at = slot(role);
  at.status.state = State::stopped;
  if (at.process) at.process->signal(signal);
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
  if (report.kind == Kind::log) {
    note(role, report.text);
  } else if (report.kind == Kind::ready) {
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
