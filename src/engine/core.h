// The engine behind Dispatcher and Outbox: workers, queue and completion.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/outage.h"
#include "base/own_thread.h"
#include "base/thread.h"
#include "engine/completer.h"
#include "engine/delivery.h"
#include "engine/unrouted.h"
#include "engine/work_queue.h"
#include "model/breaker.h"
#include "model/job.h"
#include "outbox/spi/dispatcher.h"

namespace outbox::internal {

// What whoever drives the engine wants to know. Called from any thread, with
// no lock held.
struct CoreEvents {
  // Reads the store once; true if there may be more at once.
  std::function<bool()> read{};
  // Rows wait alone until then.
  std::function<void(std::span<const Clock::Steady>)> rows_due{};
  // tick() or next_lane_due() may now say something earlier.
  std::function<void()> timer_changed{};
  // Another instance owns what this one marked: this epoch is over.
  std::function<void(std::int64_t epoch)> fenced{};
  // Nothing is in flight any more, but for what hangs or is refused.
  std::function<void()> emptied{};
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

  // Reserves an event before its row can be visible. It is then enqueued, given
  // up because there is no row, or left to the reader. False if an event of that id
  // is in flight.
  bool reserve(const Event& event);
  bool enqueue_reserved(Row row);

  // Whether events of a shard are taken directly at all: this instance owns
  // them, and has no candidates to watch.
  bool direct(int shard) const {
    return epoch_ != 0 && !isolating_ && queue_.takes_directly(shard);
  }
  void give_up(const Event& event);
  void leave_to_reader(const Event& event, const RowRef& row);

  bool enqueue(Row row, bool hot);

  // --- What the reader brings (PollHandler) ---

  std::size_t room() override;
  std::size_t room_bytes() override;
  std::size_t in_flight() override;
  std::size_t active() override { return queue_.active(completer_.apart()); }
  bool has(std::string_view event_id) override { return queue_.knows(event_id); }
  bool handle(Row row) override;
  std::vector<RowRef> take_left_behind() { return queue_.take_left_behind(); }
  std::size_t deliver_isolated(std::vector<Row> rows) override;
  void isolate(bool on) override { isolating_ = on; }
  void read_begins(std::int64_t epoch) override;
  void read_ends() override;
  void restore(const HeldLane& lane) override;
  LaneRead next_lane(std::span<const Seq> read_through) override;
  std::optional<Clock::Steady> next_lane_due() override { return queue_.next_due(); }
  void on_lease(const Lease& lease, Clock::Steady valid_until) override;
  bool drained(int shard) override;
  std::string stalled() override;
  bool able() override;

  bool any_blocked() override { return queue_.any_blocked(); }
  void unblocked(std::span<const LaneRef> lanes) override { queue_.unblock(lanes); }
  void recheck_blocked() override;
  void load_lane(const LaneRead& lane, Rows rows, bool candidate) override;

  // --- What the driver does ---

  void request_poll() { queue_.request_poll(); }

  // Does what is due: ends pauses, reports calls that hang. When to come back.
  std::optional<Clock::Steady> tick();

  // --- Operators ---

  // Deliver nothing (or nothing to one listener; MisuseError if there is none)
  // until resumed. What is running goes on.
  void pause(bool on) { queue_.pause(on); }
  void pause(std::string_view aggregate_type, std::string_view type, bool on);

  // What is not as usual, one sentence each; whether any worker is left.
  struct Condition {
    std::vector<std::string> notes{};
    bool workers_left = true;
  };
  Condition condition() const;
  const Outage& marking() const { return completer_.outage(); }

  bool closing() const { return closing_; }
  std::int64_t epoch() const { return epoch_; }
  std::size_t unacknowledged() const { return queue_.in_flight(); }
  std::size_t hot_room() const { return closing_ ? 0 : queue_.room(true); }
  std::size_t cold_room() const { return closing_ ? 0 : queue_.room(false); }
  bool wait_empty(std::chrono::steady_clock::time_point deadline) {
    return queue_.wait_empty(deadline);
  }
  void wait_change(std::chrono::steady_clock::time_point deadline) { queue_.wait_change(deadline); }

  // Whether this is a thread of its own, which close() would wait for.
  bool on_own_thread() const { return OwnThread::works_for(this) || completer_.on_own_thread(); }

  // Returns the rows that were claimed and not started.
  std::vector<RowRef> close(std::optional<std::chrono::milliseconds> limit = std::nullopt);

  void count(Counter counter, std::uint64_t n = 1) const;

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
  bool may_deliver(const std::vector<Job>& jobs);

  Job job_of(Row row, bool hot, std::int64_t epoch) const;
  bool acquire(const Row& row);
  bool meet_in_flight(const Row& row);
  void give_back_claims();
  // False: no room, and the job is left as it was.
  bool admitted(Job& job, WorkQueue::Admission admission);
  void hold(Job job);
  void park(Job job);
  void release(const Job& job);
  void on_ack(std::span<Completion> completions);
  void on_fenced(std::int64_t epoch);
  void tell_if_emptied();
  bool report_hung(Worker& worker, Clock::Steady now, std::optional<Clock::Steady>& next);
  void hand_over_hung(std::optional<int> shard);
  std::size_t hung_workers(std::chrono::milliseconds longer) const;
  bool has_waiting();
  void give_back(std::vector<Job> jobs);
  void begin_isolated(Job job);
  bool unblock(LaneKey lane, Row row, std::vector<Completion>& completions);
  void report(const Completion& completion) const;
  void report_paused(const Breaker* route, const std::string& why) const;
  void report_dead(const Completion& completion) const;
  void publish_gauges() const;

  // Constant after construction (events_: after start()).
  const std::shared_ptr<Instance> instance_;
  const Listeners listeners_;
  const DispatcherOptions options_;
  const Logger log_;
  const Clock& clock_;
  const std::shared_ptr<InFlightTracker> tracker_;  // of the user; null: the queue knows
  CoreEvents events_;

  // The map is constant; the breakers are guarded by the queue's lock.
  std::unordered_map<const Route*, std::unique_ptr<Breaker>> breakers_;

  WorkQueue queue_;
  Unrouted unrouted_;
  Deliverer deliverer_;
  Completer completer_;

  Mutex lease_mutex_;
  CondVar lease_changed_;
  Clock::Steady deadline_ OUTBOX_GUARDED_BY(lease_mutex_) = Clock::Steady::max();
  bool fenced_ OUTBOX_GUARDED_BY(lease_mutex_) = false;  // the store has said so of epoch_
  bool stopping_ OUTBOX_GUARDED_BY(lease_mutex_) = false;
  Atomic<bool> closing_{false};
  Atomic<std::int64_t> epoch_{0};  // changed under lease_mutex_
  Atomic<bool> isolating_{false};
  Atomic<int> stalls_{0};                  // how often it was given up since the last update acked
  Atomic<std::int64_t> reading_epoch_{0};  // of the read under way

  // With row claims: by the id. Whoever reads uses it.
  std::vector<std::pair<std::string, RowRef>> claimed_in_flight_;
  Atomic<bool> reading_{false};  // between read_begins() and read_ends()
  std::stop_source stop_calls_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace outbox::internal
