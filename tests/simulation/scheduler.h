// Threads and time of a simulation: one thread runs at a time, and who is next is decided here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <typeindex>
#include <vector>

#include "simulation/choices.h"

namespace outbox::simulation {

using Instant = std::chrono::steady_clock::time_point;

// All threads wait, and none of them for a time.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Those who wait for something.
struct Waiters;

// Simulated threads are fibers of the one real thread. A fiber goes on until it waits, or until it
// comes to a point (every use of the seam in threads/, every call of the store) at which the
// scheduler lets another one go on. Time stands still but for a microsecond at each point, and
// jumps to the next deadline when everybody waits.
//
// Threads belong to processes. One that is killed runs no further, and one that is frozen not for
// a while; but what a server does for them comes to its end (ServerCall).
class Scheduler {
 public:
  enum class Policy : std::uint8_t {
    random_walk,  // at each point another thread may go on
    priorities,   // the one of the highest priority goes on; priorities change a few times
  };

  Scheduler(Choices& choices, Policy policy);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The one that runs; null outside run().
  static Scheduler* here();

  // Runs `main` as the first thread, until it returns. Threads that still run then never go on.
  // Throws what `main` throws, and Deadlock.
  void run(std::function<void()> main);

  Instant now() const { return now_; }
  std::uint64_t steps() const { return steps_; }

  // --- Called by simulated threads ---

  // Somebody else may go on first.
  void point();

  // Until it is woken, or the time has come; true if it was woken. The caller loops.
  bool wait(Waiters& waiters, std::optional<Instant> deadline, const char* what);
  void wake_one(Waiters& waiters);
  void wake_all(Waiters& waiters);

  void sleep_until(Instant time);

  // Until the condition holds or the time has come; true if it holds. It is asked at every step.
  bool wait_for(std::function<bool()> condition, Instant deadline, const char* what);

  using ThreadId = std::size_t;
  ThreadId start(std::function<void()> body);
  bool has_ended(ThreadId thread) const;
  void join(ThreadId thread);
  void name_thread(std::string name);
  std::string thread_name() const;

  // A value of the thread's own.
  template <class T>
  T& local() {
    std::shared_ptr<void>& value = local(std::type_index(typeid(T)));
    if (!value) value = std::make_shared<T>();
    return *static_cast<T*>(value.get());
  }

  // --- Processes ---

  using ProcessId = int;

  // Threads that `body` starts belong to the process, too.
  ThreadId start_process(ProcessId process, std::function<void()> body);
  ProcessId process() const;

  // Runs it as if the calling thread belonged to another process.
  template <class Work>
  auto in_process(ProcessId process, Work work) {
    const ProcessScope scope(*this, process);
    return work();
  }
  void kill(ProcessId process);
  void freeze(ProcessId process, Instant until);
  bool is_frozen(ProcessId process) const;

  // Whether no thread of a killed process is inside a server any more.
  bool is_gone(ProcessId process) const;

  // While it lives, a server works for the calling thread: killed or frozen, it goes on to the
  // end of the call, and no further.
  class ServerCall {
   public:
    ServerCall();
    ~ServerCall();
    ServerCall(const ServerCall&) = delete;
    ServerCall& operator=(const ServerCall&) = delete;
  };

 private:
  struct Fiber;
  class ProcessScope {
   public:
    ProcessScope(Scheduler& scheduler, ProcessId process);
    ~ProcessScope();
    ProcessScope(const ProcessScope&) = delete;
    ProcessScope& operator=(const ProcessScope&) = delete;

   private:
    Fiber& fiber_;
    const ProcessId own_;
  };
  struct Process {
    bool killed = false;
    Instant frozen_until{};
    int calls = 0;
  };

  ThreadId start(ProcessId process, std::function<void()> body);
  std::shared_ptr<void>& local(std::type_index type);
  bool can_run(const Fiber& fiber) const;
  std::vector<Fiber*> runnable();
  Fiber* choose();
  Fiber* choose_among(const std::vector<Fiber*>& candidates);
  bool let_time_pass();
  bool goes_on();
  void switch_away();
  void resume(Fiber& fiber);
  void change_priorities();
  std::string describe() const;

  Choices& choices_;
  const Policy policy_;
  Instant now_{std::chrono::hours{1}};
  std::uint64_t steps_ = 0;

  std::uint32_t until_switch_ = 0;      // random walk: points; 0: until it waits
  std::uint32_t run_length_ = 0;        // points since another one ran
  std::vector<std::uint64_t> changes_;  // priorities: at which steps they change
  bool news_ = false;                   // somebody else may be able to go on now,
  Instant next_deadline_{};             // or will be then

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> alive_;
  Fiber* current_ = nullptr;
  std::map<ProcessId, Process> processes_;
};

struct Waiters {
  std::vector<std::size_t> threads{};
};

}  // namespace outbox::simulation
