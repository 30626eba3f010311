// The engine behind Dispatcher and Outbox: workers, queue and completion.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/mutex.h"
#include "core/rate_limit.h"
#include "engine/breaker.h"
#include "engine/completer.h"
#include "engine/delivery.h"
#include "engine/gate.h"
#include "engine/job.h"
#include "engine/work_queue.h"
#include "outbox/dispatcher.h"

namespace outbox::internal {

// What whoever drives the engine wants to know. Called from any thread, with
// no lock held.
struct CoreEvents {
  // Reads the store once; true if there may be more at once.
  std::function<bool()> read{};
  // A row waits alone until then.
  std::function<void(Clock::Steady)> row_due{};
  // next_timer() may have changed.
  std::function<void()> timer_changed{};
  // Another instance owns what this one marked.
  std::function<void()> fenced{};
  // Nothing is in flight any more.
  std::function<void()> emptied{};
  // Rows from here on were left to the reader, which may have passed them.
  std::function<void(Seq)> left_behind{};
};

// Thread-safe.
class Core final : public PollHandler {
 public:
  Core(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options,
       std::size_t batch);
  ~Core() override;

  // Before start(). Without `read`, nobody reads.
  void set_events(CoreEvents events);
  void start();

  // --- The direct hot path ---

  // Reserves an event before its row can be visible; it is then enqueued, or
  // given up and left to the reader.
  bool reserve(const Event& event);
  bool enqueue_reserved(Row row);
  void give_up(const Event& event, Seq seq);

  bool enqueue(Row row, bool hot);

  // --- What the reader brings (PollHandler) ---

  std::size_t room() override;
  std::size_t in_flight() override;
  bool handle(Row row) override;
  void handle_suspects(std::vector<Row> rows) override;
  void read_begins() override;
  void read_ends() override;
  void restore(const HeldLane& lane) override;
  Wanted next_lane(std::span<const Seq> read_through) override;
  void fill(const Wanted& lane, Rows rows, bool suspect) override;

  // --- What the driver does ---

  void request_poll() { queue_.request_poll(); }

  // Owns something from now on, or nothing any more (0); what was queued is
  // dropped.
  void set_epoch(std::int64_t epoch);

  // No delivery begins after this moment, unless it is moved.
  void set_deadline(Clock::Steady deadline);

  bool shard_idle(int shard) const { return queue_.shard_idle(shard); }
  void forget_shard(int shard) { queue_.forget_shard(shard); }
  void recheck_blocked(std::size_t n) { queue_.recheck_blocked(n); }

  // Does what is due: ends pauses, reports calls that hang. When to come back.
  std::optional<Clock::Steady> tick();

  // When a lane that was set aside is due.
  std::optional<Clock::Steady> next_lane_due() const { return queue_.next_due(); }

  std::size_t hot_room() const { return closing_ ? 0 : queue_.room(true); }
  std::size_t cold_room() const { return closing_ ? 0 : queue_.room(false); }
  bool wait_empty(std::chrono::steady_clock::time_point deadline) {
    return queue_.wait_empty(deadline);
  }

  // Returns the rows that were claimed and not started.
  std::vector<RowRef> close();

 private:
  // What one worker is doing, for those who watch over it.
  struct Call {
    Clock::Steady since{};
    std::string event_id{};
    std::string route{};
    bool running = false;
    bool reported = false;
  };
  struct Worker {
    Mutex mutex;
    Call call OUTBOX_GUARDED_BY(mutex);
    std::jthread thread;
  };

  void work(Worker& worker);
  void deliver(Worker& worker, std::vector<Job>& jobs);
  struct Judgement {
    WorkQueue::After after = WorkQueue::After::next;
    Mark mark{};
    Completion::Landing landing = Completion::Landing::done;
  };
  Judgement judge(const Job& job, const Outcome& outcome) const;
  bool may_deliver(const Job& job) const;

  Job job_of(Row row, bool hot) const;
  bool admit(Job job);
  void set_aside(Job job);
  void park(Job job);
  void release(const Job& job);
  void on_landed(std::span<Completion> completions);
  void begin_suspect(Job job);
  void report_dead(const Completion& completion) const;
  void count(Counter counter, std::uint64_t n = 1) const;
  void publish_gauges() const;

  // Constant after construction (events_: after start()).
  const std::shared_ptr<Instance> instance_;
  const Listeners listeners_;
  const DispatcherOptions options_;
  const Logger log_;
  const Clock& clock_;
  const std::shared_ptr<Gate> gate_;  // null if the user brought a tracker
  const std::shared_ptr<InFlightTracker> tracker_;
  CoreEvents events_;

  // The map is constant; the breakers are guarded by the queue's lock.
  std::unordered_map<const Route*, std::unique_ptr<Breaker>> breakers_;

  WorkQueue queue_;
  Deliverer deliverer_;
  Completer completer_;
  RateLimit drop_warnings_;
  std::atomic<Clock::Steady> deadline_{Clock::Steady::max()};
  std::atomic<bool> closing_{false};
  std::atomic<std::int64_t> epoch_{0};
  std::stop_source stop_calls_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace outbox::internal
