// What the workers do: calls, what is decided after them, and calls that hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "engine/work_queue.h"
#include "model/breaker.h"
#include "model/job.h"
#include "outbox/clock.h"
#include "outbox/listener.h"
#include "outbox/log.h"
#include "outbox/spi/dispatcher.h"

namespace outbox::internal {

class Completer;
class Engine;

// Runs the steps of a delivery: interceptors in order, route, listener, interceptors in reverse.
// Never throws. Thread-safe.
class Deliverer {
 public:
  explicit Deliverer(const DispatcherOptions& options);

  // Delivers jobs of one route; one outcome each. A fan-out notes in the job
  // which handlers have the event.
  std::vector<Outcome> deliver(std::span<Job> jobs, const std::stop_token& stop) const;

 private:
  // Which interceptors were entered, and how it ended.
  struct Passage {
    std::size_t entered = 0;
    std::exception_ptr error{};
  };

  Passage enter(const Job& job, const std::stop_token& stop) const;
  void leave(const Event& event, const Passage& passage, const Outcome& outcome) const;
  Outcome deliver_one(Job& job, const std::stop_token& stop) const;
  std::vector<Outcome> deliver_batch(std::span<Job> jobs, const std::stop_token& stop) const;

  // Constant after construction.
  const std::vector<std::shared_ptr<Interceptor>> interceptors_;
  const bool ignores_unroutable_;
  const Logger log_;
};

// Which types of events wait for a listener that is not here, for operators. A type that is not
// met any more is forgotten. Thread-safe.
class Unrouted {
 public:
  // Every event that waits is looked at again within this time.
  static constexpr std::chrono::milliseconds kLongestWait{60'000};

  // True if its type was not known.
  bool note(const Event& event, Clock::Steady now) {
    MutexLock lock(mutex_);
    forget(now);
    const std::string name = event.aggregate_type() + "/" + event.type();
    if (types_.size() >= kMost && !types_.contains(name)) return false;
    return types_.insert_or_assign(name, now).second;
  }

  // "Order/OrderPlaced".
  std::vector<std::string> types(Clock::Steady now) const {
    MutexLock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, met] : types_) {
      if (!over(met, now)) names.push_back(name);
    }
    return names;
  }

 private:
  static constexpr std::size_t kMost = 100;

  static bool over(Clock::Steady met, Clock::Steady now) { return now - met > 3 * kLongestWait; }
  void forget(Clock::Steady now) OUTBOX_REQUIRES(mutex_) {
    std::erase_if(types_, [&](const auto& type) { return over(type.second, now); });
  }

  mutable Mutex mutex_;
  std::map<std::string, Clock::Steady> types_ OUTBOX_GUARDED_BY(mutex_);  // when last met
};

// The worker threads of an engine: each takes what the queue has for it, delivers it and decides
// what becomes of it; or reads, where nothing else is to be done. Watches over their calls.
// Thread-safe.
class Workers {
 public:
  // `options` as checked() returned them.
  Workers(Engine& engine, WorkQueue& queue, Completer& completer, const DispatcherOptions& options);

  void start();

  // Asks listeners to come back, and waits for the threads; the queue was stopped before.
  void stop();

  // None before start().
  bool none() const { return workers_.empty(); }

  // --- Calls that hang ---

  // Reports those that have just passed the limit: true if there are any. When the next one will.
  bool report_hung(std::optional<Clock::Steady>& next);

  // Postpones events whose call hangs, by as long as it has taken so far: the next owner of their
  // shard holds them and their aggregates for that time. The call goes on.
  void hand_over_hung(std::optional<int> shard, std::int64_t epoch);

  // Whether all have been inside a call that hangs, for so much longer than allowed.
  bool all_hang(std::chrono::milliseconds longer = {}) const;

  // --- For operators ---

  // The calls that hang, and the types of events that wait for a listener; one sentence each.
  std::vector<std::string> hung_calls() const;
  std::vector<std::string> unrouted() const;

 private:
  // What one worker is doing, for those who watch over it.
  struct Call {
    Clock::Steady since{};
    std::optional<Event> event{};  // its first; absent: nothing is running
    const std::vector<Job>* jobs = nullptr;
    std::vector<std::string> progress{};  // of each, when the call began
    const Breaker* route = nullptr;
    bool reported = false;
  };
  struct Worker {
    Mutex mutex;
    Call call OUTBOX_GUARDED_BY(mutex);

    // Its thread's alone: their memory serves one delivery after the other.
    std::vector<Decision> decisions{};
    std::vector<Completion> finished{};

    Thread thread;
  };

  void work(Worker& worker);
  void deliver(Worker& worker, std::vector<Job>& jobs);
  void postpone(Worker& worker, std::vector<Job>& jobs);
  bool waits_for_listener(const Job& job) const;
  std::chrono::milliseconds postponement(const Job& job);
  std::vector<Outcome> call(Worker& worker, std::vector<Job>& jobs);
  void settle(Worker& worker, WorkQueue::Followers followers);
  void write_dead_letter(Job& job, Decision& decision) const;
  Decision decide(const Job& job, const Outcome& outcome) const;
  std::chrono::milliseconds delay_of(const RetryPolicy& policy, int attempts) const;
  bool report_hung(Worker& worker, Clock::Steady now, std::optional<Clock::Steady>& next);
  void report_unavailable(const Breaker* route, const std::string& why) const;

  // Constant after construction (workers_: after start()).
  Engine& engine_;
  WorkQueue& queue_;
  Completer& completer_;
  const DispatcherOptions& options_;
  const Logger log_;
  const Clock& clock_;

  Unrouted unrouted_;
  const Deliverer deliverer_;
  std::stop_source stop_calls_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace outbox::internal
