#include "simulation/scheduler.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <exception>
#include <unordered_map>
#include <utility>

namespace outbox::simulation {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kStack = std::size_t{256} * 1024;

// Of a random walk: how many points a thread passes before another one may go on, on average.
constexpr std::uint32_t kSwitch = 12;

// And how many at most, whatever was decided.
constexpr std::uint32_t kLongestRun = 5'000;

// How many of the first steps may be such that priorities change, and how often they do.
constexpr std::uint32_t kChanges = 5;
constexpr std::uint32_t kSteps = 1U << 14U;

Scheduler* the_scheduler = nullptr;

// What the C++ runtime keeps for a thread while it handles exceptions; here all have one.
class ExceptionState {
 public:
  void save() { std::memcpy(state_.data(), abi::__cxa_get_globals(), state_.size()); }
  void restore() const { std::memcpy(abi::__cxa_get_globals(), state_.data(), state_.size()); }

 private:
  std::array<std::byte, sizeof(void*) + sizeof(unsigned)> state_{};
};

}  // namespace

struct Scheduler::Fiber {
  ThreadId id = 0;
  ProcessId process = 0;
  std::string name{};
  std::uint32_t priority = 0;
  boost::context::fiber context{};  // where it goes on,
  boost::context::fiber origin{};   // and where its scheduler does
  ExceptionState exceptions{};
  std::unordered_map<std::type_index, std::shared_ptr<void>> locals{};

  bool ended = false;
  int server_calls = 0;

  // What it waits for; null if for nothing.
  const char* waits_for = nullptr;
  bool woken = false;
  std::optional<Instant> deadline{};
  std::function<bool()> condition{};

  Waiters joining{};
};

Scheduler::Scheduler(Choices& choices, Policy policy) : choices_(choices), policy_(policy) {
  if (policy_ != Policy::priorities) return;
  for (std::uint32_t i = 0; i < kChanges; ++i) changes_.push_back(choices_.below(kSteps));
  std::sort(changes_.begin(), changes_.end());
}

// A thread that has not ended is not unwound: a thread of a process that was killed runs no
// destructors either. The memory goes with the real process.
Scheduler::~Scheduler() {
  for (auto& fiber : fibers_) static_cast<void>(fiber.release());
}

Scheduler* Scheduler::here() { return the_scheduler; }

void Scheduler::run(std::function<void()> main) {
  the_scheduler = this;
  std::exception_ptr failure;
  const ThreadId first = start([&] {
    try {
      main();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;
    } catch (...) {
      failure = std::current_exception();
    }
  });
  while (!fibers_[first]->ended && !failure) {
    Fiber* const next = choose();
    if (next == nullptr) {
      the_scheduler = nullptr;
      throw Deadlock(describe());
    }
    resume(*next);
  }
  the_scheduler = nullptr;
  if (failure) std::rethrow_exception(failure);
}

// --- Choosing ---

bool Scheduler::can_run(const Fiber& fiber) const {
  if (fiber.server_calls == 0) {
    const auto process = processes_.find(fiber.process);
    if (process != processes_.end() &&
        (process->second.killed || process->second.frozen_until > now_)) {
      return false;
    }
  }
  if (fiber.waits_for == nullptr || fiber.woken) return true;
  if (fiber.deadline && *fiber.deadline <= now_) return true;
  return fiber.condition && fiber.condition();
}

std::vector<Scheduler::Fiber*> Scheduler::runnable() {
  std::vector<Fiber*> found;
  next_deadline_ = Instant::max();
  for (Fiber* const fiber : alive_) {
    if (can_run(*fiber)) {
      found.push_back(fiber);
    } else if (fiber->deadline) {
      next_deadline_ = std::min(next_deadline_, *fiber->deadline);
    }
  }
  return found;
}

Scheduler::Fiber* Scheduler::choose() {
  for (;;) {
    const std::vector<Fiber*> candidates = runnable();
    if (!candidates.empty()) {
      if (policy_ == Policy::random_walk) until_switch_ = choices_.below(2 * kSwitch);
      news_ = false;
      run_length_ = 0;
      return choose_among(candidates);
    }
    if (!let_time_pass()) return nullptr;
  }
}

Scheduler::Fiber* Scheduler::choose_among(const std::vector<Fiber*>& candidates) {
  if (policy_ == Policy::priorities) {
    return *std::max_element(
        candidates.begin(), candidates.end(),
        [](const auto* a, const auto* b) { return a->priority < b->priority; });
  }
  return candidates[choices_.below(static_cast<std::uint32_t>(candidates.size()))];
}

// To the next moment at which somebody can go on; false if there is none.
bool Scheduler::let_time_pass() {
  std::optional<Instant> next;
  for (const Fiber* const fiber : alive_) {
    Instant time = now_;
    if (fiber->server_calls == 0) {
      const auto process = processes_.find(fiber->process);
      if (process != processes_.end()) {
        if (process->second.killed) continue;
        time = std::max(time, process->second.frozen_until);
      }
    }
    const bool waits = fiber->waits_for != nullptr && !fiber->woken;
    if (waits && (!fiber->deadline || *fiber->deadline == Instant::max())) continue;
    if (waits) time = std::max(time, *fiber->deadline);
    if (!next || time < *next) next = time;
  }
  if (!next) return false;
  now_ = std::max(*next, now_ + microseconds{1});
  return true;
}

void Scheduler::change_priorities() {
  while (!changes_.empty() && changes_.front() <= steps_) {
    changes_.erase(changes_.begin());
    current_->priority = static_cast<std::uint32_t>(changes_.size());
    news_ = true;
  }
}

void Scheduler::resume(Fiber& fiber) {
  current_ = &fiber;
  fiber.exceptions.restore();
  fiber.context = std::move(fiber.context).resume();
  fiber.exceptions.save();
  current_ = nullptr;
  if (fiber.ended) std::erase(alive_, &fiber);
}

// --- The threads' side ---

void Scheduler::switch_away() {
  Fiber& self = *current_;
  self.origin = std::move(self.origin).resume();
}

void Scheduler::point() {
  if (current_ == nullptr) return;
  ++steps_;
  now_ += microseconds{1};
  if (goes_on() && can_run(*current_)) return;
  switch_away();
}

bool Scheduler::goes_on() {
  // A thread that tries again and again until another one has done something must let it.
  if (++run_length_ > kLongestRun) {
    current_->priority = 0;
    return false;
  }
  if (policy_ == Policy::random_walk) return until_switch_ == 0 || --until_switch_ > 0;
  change_priorities();
  return !news_ && now_ < next_deadline_;
}

bool Scheduler::wait(Waiters& waiters, std::optional<Instant> deadline, const char* what) {
  Fiber& self = *current_;
  waiters.threads.push_back(self.id);
  self.waits_for = what;
  self.woken = false;
  self.deadline = deadline;
  switch_away();
  const bool woken = self.woken;
  std::erase(waiters.threads, self.id);
  self.waits_for = nullptr;
  self.deadline.reset();
  return woken;
}

void Scheduler::wake_one(Waiters& waiters) {
  if (waiters.threads.empty()) return;
  const auto which = choices_.below(static_cast<std::uint32_t>(waiters.threads.size()));
  fibers_[waiters.threads[which]]->woken = true;
  news_ = true;
  waiters.threads.erase(waiters.threads.begin() + which);
}

void Scheduler::wake_all(Waiters& waiters) {
  if (waiters.threads.empty()) return;
  for (const ThreadId thread : waiters.threads) fibers_[thread]->woken = true;
  waiters.threads.clear();
  news_ = true;
}

void Scheduler::sleep_until(Instant time) {
  Waiters nobody;
  wait(nobody, time, "a time");
}

bool Scheduler::wait_for(std::function<bool()> condition, Instant deadline, const char* what) {
  current_->condition = std::move(condition);
  Waiters nobody;
  wait(nobody, deadline, what);
  return std::exchange(current_->condition, {})();
}

Scheduler::ThreadId Scheduler::start(std::function<void()> body) {
  return start(current_ == nullptr ? 0 : current_->process, std::move(body));
}

Scheduler::ThreadId Scheduler::start(ProcessId process, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  Fiber& made = *fiber;
  made.id = fibers_.size();
  made.process = process;
  made.name = "thread " + std::to_string(made.id);
  if (policy_ == Policy::priorities) made.priority = kChanges + choices_.below(1U << 16U);
  made.context = boost::context::fiber(
      std::allocator_arg, boost::context::fixedsize_stack(kStack),
      [this, &made, work = std::move(body)](boost::context::fiber&& scheduler) mutable {
        made.origin = std::move(scheduler);
        work();
        work = {};
        made.ended = true;
        wake_all(made.joining);
        return std::move(made.origin);
      });
  alive_.push_back(&made);
  fibers_.push_back(std::move(fiber));
  news_ = true;
  point();
  return made.id;
}

bool Scheduler::has_ended(ThreadId thread) const { return fibers_[thread]->ended; }

void Scheduler::join(ThreadId thread) {
  while (!fibers_[thread]->ended) wait(fibers_[thread]->joining, std::nullopt, "a thread's end");
}

void Scheduler::name_thread(std::string name) {
  if (current_ != nullptr) current_->name = std::move(name);
}

std::string Scheduler::thread_name() const { return current_ == nullptr ? "" : current_->name; }

std::shared_ptr<void>& Scheduler::local(std::type_index type) { return current_->locals[type]; }

// --- Processes ---

Scheduler::ThreadId Scheduler::start_process(ProcessId process, std::function<void()> body) {
  processes_[process] = {};
  return start(process, std::move(body));
}

Scheduler::ProcessScope::ProcessScope(Scheduler& scheduler, ProcessId process)
    : fiber_(*scheduler.current_), own_(std::exchange(fiber_.process, process)) {}
Scheduler::ProcessScope::~ProcessScope() { fiber_.process = own_; }

Scheduler::ProcessId Scheduler::process() const { return current_->process; }

void Scheduler::kill(ProcessId process) {
  processes_[process].killed = true;
  news_ = true;
  point();
}

void Scheduler::freeze(ProcessId process, Instant until) {
  processes_[process].frozen_until = until;
  news_ = true;
  point();
}

bool Scheduler::is_frozen(ProcessId process) const {
  const auto found = processes_.find(process);
  return found != processes_.end() && found->second.frozen_until > now_;
}

bool Scheduler::is_gone(ProcessId process) const {
  const auto found = processes_.find(process);
  return found != processes_.end() && found->second.killed && found->second.calls == 0;
}

Scheduler::ServerCall::ServerCall() {
  Scheduler& scheduler = *Scheduler::here();
  scheduler.point();
  ++scheduler.current_->server_calls;
  ++scheduler.processes_[scheduler.current_->process].calls;
}

Scheduler::ServerCall::~ServerCall() {
  Scheduler& scheduler = *Scheduler::here();
  --scheduler.current_->server_calls;
  --scheduler.processes_[scheduler.current_->process].calls;
  scheduler.point();
}

std::string Scheduler::describe() const {
  std::string text = "all threads wait, and none of them for a time:";
  for (const Fiber* const fiber : alive_) {
    const auto process = processes_.find(fiber->process);
    const bool killed = process != processes_.end() && process->second.killed;
    if (killed) continue;
    text += "\n  process " + std::to_string(fiber->process) + ", " + fiber->name + ": waits for " +
            (fiber->waits_for == nullptr ? "nothing" : fiber->waits_for);
  }
  return text;
}

}  // namespace outbox::simulation
