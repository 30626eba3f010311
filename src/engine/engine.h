// What brings events to their listeners and their updates back to the store.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/own_thread.h"
#include "base/thread.h"
#include "engine/completer.h"
#include "engine/intake.h"
#include "engine/lease_keeper.h"
#include "engine/poller.h"
#include "engine/work_queue.h"
#include "engine/worker.h"
#include "model/breaker.h"
#include "model/job.h"
#include "outbox/outbox.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// Owns and wires its parts: WorkQueue, Workers, Completer, and a Poller, or, where rows are brought
// from outside, a LeaseKeeper alone. Admits what a poller and commits bring, keeps to the lease,
// and hears what has been acknowledged.
//
// Thread-safe, but for what an Intake says; start() is called at most once.
class Engine final : public Intake, private Completer::Events {
 public:
  // With options to poll, its own workers read. `instance` is left when it is closed then.
  Engine(std::shared_ptr<Instance> instance, Listeners listeners, DispatcherOptions options,
         const std::optional<PollerOptions>& polling = std::nullopt);
  ~Engine() override;

  // Before start(), without a poller of its own: another one renews the lease, and tells.
  void leave_lease_to_others();

  void start();

  // Wakes the poller whenever somebody else commits, if the store can tell.
  void watch(Store& store);

  // The watch that need not call when a writer of this engine commits, because the writer's hook
  // wakes the poller; null if there is none.
  const Watch* told_by_writers() const { return told_; }

  // Stops taking events, works off what is queued within the limit (nullopt: as the options say),
  // flushes the updates and ends the threads. Idempotent; fine without start().
  void close(std::optional<std::chrono::milliseconds> limit = std::nullopt);

  // Null: rows are brought from outside.
  Poller* poller() { return poller_.get(); }
  const Poller* poller() const { return poller_.get(); }

  // Whether this is a thread of its own, which close() would wait for.
  bool on_own_thread() const {
    return OwnThread::works_for(this) || completer_.on_own_thread() ||
           (poller_ ? poller_->on_own_thread() : keeper_->on_own_thread());
  }

  // --- The direct hot path ---

  // Which events of a writer go straight into the hot queue: none, all, or those whose row was
  // inserted as claimed (another instance may claim any other).
  enum class Direct { none, all, claimed };
  Direct direct_path() const;

  // Whether commits are of interest: not before start(), nor after close().
  bool takes_commits() const { return takes_commits_; }

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

  // --- What a poller brings (Intake) ---

  std::size_t room() override;
  std::size_t room_bytes() override;
  std::size_t in_flight() override;
  std::size_t active() override { return queue_.active(completer_.apart()); }
  bool has(std::string_view event_id) override { return queue_.knows(event_id); }
  bool handle(Row row) override;
  std::vector<RowRef> take_left_behind() override { return queue_.take_left_behind(); }
  bool request_poll() override;
  std::size_t deliver_isolated(std::vector<Row> rows) override;
  void isolate(bool on) override;
  void read_begins(std::int64_t epoch) override;
  void read_ends() override;
  void restore(const HeldLane& lane) override;
  LaneRead next_lane(std::span<const Seq> read_through) override;
  std::optional<Clock::Steady> next_lane_due() override { return queue_.next_due(); }
  bool any_blocked() override { return queue_.any_blocked(); }
  void unblocked(std::span<const LaneRef> lanes) override { queue_.unblock(lanes); }
  void recheck_blocked() override;
  void load_lane(const LaneRead& lane, Rows rows, bool candidate) override;

  // --- The lease ---

  void on_lease(const Lease& lease, Clock::Steady valid_until) override;
  bool drained(int shard) override;
  std::string stalled() override;
  bool able() override;
  std::optional<Clock::Steady> tick() override;

  // --- What the workers need of it ---

  // Whether all of these are still ours; waits while that is not clear.
  bool may_deliver(const std::vector<Job>& jobs);

  // Submit the update that holds a row behind others of its lane, or makes it DEAD as well.
  void hold(Job job);
  void park(Job job);

  // They are not ours any more, or not to be delivered: they are not updated.
  void give_back(std::vector<Job> jobs);

  // Tells the tracker of the user, which is asked without any lock.
  void release(const Job& job);

  // tick() or next_lane_due() may now say something earlier.
  void timer_changed();

  void count(Counter counter, std::uint64_t n = 1) const;

  // --- Operators ---

  // Deliver nothing (or nothing to one listener; MisuseError if there is none)
  // until resumed. What is running goes on.
  void pause(bool on);
  void pause(std::string_view aggregate_type, std::string_view type, bool on);

  bool listens(std::string_view aggregate_type, std::string_view type) const {
    return listeners_.find(aggregate_type, type) != nullptr;
  }

  // Whatever has changed in the store: looks at all of it.
  void wake();

  // What is not as it should be, added to `health`.
  void examine(Health& health) const;

  const Clock& clock() const { return clock_; }
  const Logger& log() const { return log_; }
  bool closing() const { return closing_; }
  const std::string& owner_name() const { return instance_->owner(); }
  std::size_t unacknowledged() const { return queue_.in_flight(); }
  std::size_t hot_room() const { return closing_ ? 0 : queue_.room(true); }
  std::size_t cold_room() const { return closing_ ? 0 : queue_.room(false); }
  bool wait_empty(std::chrono::steady_clock::time_point deadline) {
    const Completer::Awaiting awaiting(completer_);
    return queue_.wait_empty(deadline);
  }
  void wait_change(std::chrono::steady_clock::time_point deadline) { queue_.wait_change(deadline); }

 private:
  Job job_of(Row row, bool hot, std::int64_t epoch) const;
  bool acquire(const Row& row);
  bool meet_in_flight(const Row& row);
  void give_back_claims();
  // False: no room, and the job is left as it was.
  bool admitted(Job& job, WorkQueue::Admission admission);
  void begin_isolated(Job job);
  void await_updates(std::optional<Completer::Awaiting>& awaiting, bool on);
  bool unblock(LaneKey lane, Row row, std::vector<Completion>& completions);

  void on_acked(std::span<Completion> completions) override;
  void on_fenced(std::int64_t epoch) override;
  void on_set_apart() override { tell_if_emptied(); }
  void tell_if_emptied();
  bool has_waiting();
  std::vector<RowRef> drain(std::chrono::milliseconds limit);
  void report(const Completion& completion) const;
  void report_dead(const Completion& completion) const;
  void publish_gauges() const;

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  const Listeners listeners_;
  const DispatcherOptions options_;
  const Logger log_;
  const Clock& clock_;
  const std::shared_ptr<InFlightTracker> tracker_;  // of the user; null: the queue knows

  // The map is constant; the breakers are guarded by the queue's lock.
  std::unordered_map<const Route*, std::unique_ptr<Breaker>> breakers_;

  WorkQueue queue_;
  Completer completer_;
  std::optional<Completer::Awaiting> draining_;    // while shards are; used by the keeper's thread
  std::optional<Completer::Awaiting> candidates_;  // while there are some; used by the reader

  Mutex lease_mutex_;
  CondVar lease_changed_;
  Clock::Steady deadline_ OUTBOX_GUARDED_BY(lease_mutex_) = Clock::Steady::max();
  bool fenced_ OUTBOX_GUARDED_BY(lease_mutex_) = false;  // the store has said so of epoch_
  bool stopping_ OUTBOX_GUARDED_BY(lease_mutex_) = false;
  Atomic<bool> takes_commits_{false};
  Atomic<bool> closing_{false};
  Atomic<std::int64_t> epoch_{0};  // changed under lease_mutex_
  Atomic<bool> isolating_{false};
  Atomic<int> stalls_{0};                  // how often it was given up since the last update acked
  Atomic<std::int64_t> reading_epoch_{0};  // of the read under way

  // With row claims: by the id. Used by the reading thread.
  std::vector<std::pair<std::string, RowRef>> claimed_in_flight_;
  Atomic<bool> reading_{false};  // between read_begins() and read_ends()

  // Last: their threads use the rest. One of these two keeps the lease, and all timers.
  Workers workers_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<LeaseKeeper> keeper_;
  std::unique_ptr<Watch> watch_;
  Atomic<const Watch*> told_{nullptr};  // the same, for writers; only compared
};

}  // namespace outbox::internal
