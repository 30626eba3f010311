// What the workers take from: bounded queues in front of the lanes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "engine/lanes.h"
#include "model/breaker.h"
#include "model/job.h"
#include "outbox/options.h"

namespace outbox::internal {

class Completer;

struct WorkQueueOptions {
  int workers = kDefaultWorkers;
  std::size_t hot_capacity = QueueOptions{}.hot_capacity;
  std::size_t cold_capacity = QueueOptions{}.cold_capacity;
  std::size_t capacity_bytes = QueueOptions{}.capacity_bytes;
  std::size_t batch = QueueOptions{}.batch;  // how many rows a read brings
  bool park = false;                         // events behind a DEAD one become DEAD too

  // How many events of one lane may be queued; what goes beyond is held in
  // the store, so that one busy aggregate cannot keep out all others. 0: a
  // quarter of cold_capacity.
  std::size_t lane_limit = 0;

  std::size_t routes = 1;  // how many listeners there are

  bool track_ids = true;  // false: somebody else knows which events are in flight
};

// Hands jobs to workers: from the hot and the cold queue 2:1, from a lane one
// at a time, for a listener that is open only as many as it may get. The
// others for that one wait here; where they would fill the queue and others
// listen as well, they are postponed in the store instead.
//
// Capacity is taken when an event is admitted and given back when its update is
// acked, so that it bounds everything that a crash could deliver twice.
//
// The in-flight set changes with the lanes, in one step: see InFlight. So a lease may begin and end
// at any moment, and a reader in it meets a row, or finds its lane waiting.
//
// The queue also decides when a worker reads the store instead: the one that
// finds nothing to do becomes the reader and keeps the first event it finds.
//
// Sleeping workers are woken one by one: while something waits in line and a
// worker sleeps, one is on its way, and once up it calls the next. Quick
// listeners then keep few workers awake, and slow ones get all of them.
//
// Thread-safe.
class WorkQueue {
 public:
  explicit WorkQueue(WorkQueueOptions options);

  // --- Admission ---

  // `in_flight`: the event is already. `full`: also if the job is of another epoch than the
  // current one. `hold`, `park`: the job was not queued; its lane waits, and the caller
  // submits the update that holds the row or makes it DEAD as well.
  enum class Admission { queued, hold, park, full, in_flight };
  Admission admit(Job& job);

  // The same for a job that no reader brings: only of a shard to be read; and one whose event
  // was reserved.
  Admission admit_direct(Job& job);
  Admission admit_reserved(Job& job);

  // Events that are being written are in flight before their rows can be visible to anyone; see
  // InFlight::reserve(). They are admitted then, given up because there is no row, or left to the
  // reader.
  bool reserve_event(std::string_view event_id);
  void give_up_event(std::string_view event_id);
  void leave_to_reader(std::string_view event_id, const RowRef& row);

  // The shards to be read from now on; nullopt: rows are owned one by one. Lanes of
  // which something is in flight since an earlier lease wait for it; see reclaim().
  void own(std::optional<std::vector<int>> shards);
  // Whether events of a shard may be admitted directly.
  bool takes_directly(int shard) const;

  // The same for the rows of a read: workers are called once, by read_ends(),
  // not for each of them.
  Admission admit_quietly(Job& job);
  void read_begins();
  void read_ends();

  // The same in two steps, for a job that is updated in between: `queued` if it is announced. Then
  // begin(), which says `full` if its lease has ended meanwhile: see reclaim(). A lane set
  // held is not read before its row has come: through begin(), or through
  // acked() with Decision::Kind::begin.
  Admission reserve(Job& job);
  Admission begin(Job& job);

  // Rows that a reader may have passed while their events were in flight. To be asked for before
  // a round, and after every next_lane(): a row is left behind before its lane may go on.
  void leave_behind(const RowRef& row);
  std::vector<RowRef> take_left_behind();

  // Whether an event is in flight, or a read under way may still find it; and how many are.
  bool knows(std::string_view event_id) const;
  std::size_t known() const;

  std::size_t room(bool hot) const;
  std::size_t room_bytes() const;
  std::size_t held_bytes() const;
  std::size_t depth(bool hot) const;
  std::size_t in_flight() const;

  // --- Lanes with rows held (see Lanes) ---

  void restore(const HeldLane& lane, Clock::Steady now);
  LaneRead next_lane(std::span<const Seq> read_through, Clock::Steady now);

  // The rows of a lane, as read from the lowest on.
  struct LanePage {
    std::int64_t epoch = 0;              // in which they were read
    std::vector<Job> jobs{};             // those that can be delivered now
    bool blocked = false;                // then comes a DEAD one,
    std::optional<Clock::Steady> due{};  // or one that is due only later,
    Seq open_after = 0;                  // or one that others may come before,
    bool more = false;                   // or the limit cut the result
    bool saw_first = true;               // false: not even the first row was looked at
  };
  // Without those that are in flight. Returns the jobs if they are of a lease that has ended.
  std::vector<Job> load_lane(LaneKey key, LanePage page);

  bool any_blocked() const;
  void unblock(std::span<const LaneRef> lanes);
  void recheck_blocked(std::size_t n);
  std::optional<Clock::Steady> next_due() const;

  // --- Work ---

  struct Work {
    bool poll = false;
    std::vector<Job> jobs{};  // of one route; several only for a batch listener
    bool postpone = false;    // not to be delivered now: to be deferred
  };

  // Waits for work. False: stopped.
  bool take(Work& work);

  // Jobs that have to leave the queue because an earlier one of their lane waits;
  // and what became of the listener.
  struct Followers {
    std::vector<Job> held{};     // to be held,
    std::vector<Job> park{};     // to become DEAD as well,
    std::vector<Job> dropped{};  // to be read again: held in the store already

    std::size_t stale = 0;  // updates that came to nothing, because their lease has ended

    // The listener has just become unavailable, or is available again.
    bool paused = false;
    bool closed_again = false;
  };

  // All jobs of a take() are over. Rewrites a decision that counts differently by now; see
  // Decision. The caller submits the updates of those that are done, wait, skip or block, and
  // after these the updates of the followers; what is dropped it hands to reclaim(). The dropped
  // followers are not in flight any more.
  Followers finish(std::span<Completion> finished, Clock::Steady now);

  // The same for a job that was to be postponed: no listener was called.
  Followers postponed(std::span<Completion> finished, Clock::Steady now);

  // The updates of admitted jobs have been acknowledged, or were found stale. Returns the jobs
  // that are stale because their lease has ended: for reclaim().
  std::vector<Job> acked(std::span<Completion> completions, Clock::Steady now);

  // A job is not ours any more, or was not when its lease ended. True: it is
  // again, and its lane has waited for it; the caller holds it, with those
  // behind it, so that they are read in order. False: let_go() of it.
  bool reclaim(Job& job);
  void let_go(const Job& job);

  // --- Reading ---

  void enable_polling(bool enabled);
  void request_poll();

  // For somebody who reads in the place of a worker. False: there is nothing to be read.
  bool begin_poll();

  // The reading worker is back. `more`: there may be rows to read at once.
  void poll_done(bool more);

  // Ends the pauses that are over; until when the next one lasts.
  std::optional<Clock::Steady> tick(Clock::Steady now);

  // --- Operators ---

  // Nothing is handed out any more, or nothing for one listener, until resumed.
  void pause(bool on);
  void pause(Breaker& route, bool on, Clock::Steady now);
  bool paused() const;
  std::chrono::nanoseconds open_for(const Breaker& route, Clock::Steady now) const;

  // Calls `visit` for every listener given, with the lock held.
  template <class Routes, class Visit>
  void inspect(const Routes& routes, Visit visit) const {
    MutexLock lock(mutex_);
    for (const auto& route : routes) visit(route);
  }

  // --- The end ---

  // Waits until nothing is left that could run now. False at the deadline.
  bool drain(std::chrono::steady_clock::time_point deadline);

  // Waits until nothing is in flight. False at the deadline.
  bool wait_empty(std::chrono::steady_clock::time_point deadline);

  // Waits until something has been acknowledged, or the deadline.
  void wait_change(std::chrono::steady_clock::time_point deadline);

  // Removes all that is queued and forgets the lanes. What runs goes on.
  std::vector<Job> drop_all();

  // The same at the beginning of a new lease: from now on jobs of another
  // epoch are not admitted, and those in flight are no longer ours. Their
  // lanes wait for them all the same, and then deliver them again first.
  //
  // The completer learns of it in the same step, with the lock held: what it finds to be stale
  // because its lease has ended must not come back to a queue that still is in that lease, nor
  // may what is reclaimed come to a completer that is.
  std::vector<Job> enter(std::int64_t epoch, Completer* completer = nullptr);

  void stop();

  // --- Calls that hang, and shards that are given up ---

  // A call has been running these jobs for too long. It keeps its worker, and their lanes
  // wait; nobody else waits for it from now on.
  void hangs(std::span<const Job> call);

  // How many are in flight, without those that hang, `refused` ones (whose updates are refused),
  // and those behind them in their lanes.
  std::size_t active(std::size_t refused = 0) const;

  // Removes what has not begun of a shard that is being drained, but for candidates.
  std::vector<Job> shed(int shard);

  // A job that hangs is to be postponed in the store, so that the next owner of its
  // shard holds it while the call goes on. True: the caller submits that update, and
  // says when it has been acknowledged, or that it has not before the lease ended.
  bool begin_hand_over(const Job& job);
  void handed_over(const Job& job, bool acked);
  bool hung_are_handed_over() const;

  // Whether nothing of a shard is in flight, but for what was handed over.
  bool shard_idle(int shard) const;

  // The shard, if it is idle, is not ours any more. Jobs handed over are not updated when their
  // calls return; if the shard comes back before that, their lanes wait; see reclaim().
  bool forget_shard(int shard);

  // Whether there is work that no worker has begun.
  bool has_waiting() const;

 private:
  // A place in line: of a lane, or of one job without a lane.
  struct Ticket {
    Lane* lane = nullptr;
    std::optional<Job> job{};

    Job& first() { return lane != nullptr ? lane->first() : *job; }
  };

  // Admitted and not yet acknowledged; of these, not yet taken by a worker.
  struct Load {
    std::size_t held = 0;
    std::size_t queued = 0;
  };

  Admission take_in(Job& job) OUTBOX_REQUIRES(mutex_);
  Admission take_reserved(Job& job) OUTBOX_REQUIRES(mutex_);
  Admission place(Job& job) OUTBOX_REQUIRES(mutex_);
  bool admissible(const Job& job) const OUTBOX_REQUIRES(mutex_);
  bool owns(int shard) const OUTBOX_REQUIRES(mutex_);
  std::vector<Job> drop_all_locked() OUTBOX_REQUIRES(mutex_);
  std::size_t room_locked(bool hot) const OUTBOX_REQUIRES(mutex_);
  std::size_t room_bytes_locked() const OUTBOX_REQUIRES(mutex_);
  void account(const Job& job, bool in) OUTBOX_REQUIRES(mutex_);
  Lane* current_lane(const Job& job) OUTBOX_REQUIRES(mutex_);
  void settle(Lane& lane) OUTBOX_REQUIRES(mutex_);
  void line_up(Ticket ticket) OUTBOX_REQUIRES(mutex_);
  std::size_t in_line() const OUTBOX_REQUIRES(mutex_) { return hot_.size() + cold_.size(); }
  void wait_for_work() OUTBOX_REQUIRES(mutex_);
  bool pop_ticket(Ticket& ticket) OUTBOX_REQUIRES(mutex_);
  bool start(Ticket ticket, Work& work) OUTBOX_REQUIRES(mutex_);
  bool in_the_way(bool hot) const OUTBOX_REQUIRES(mutex_);
  Followers leave_lanes(std::span<Completion> finished, Followers followers, Clock::Steady now)
      OUTBOX_REQUIRES(mutex_);
  void take_first(Ticket& ticket, Work& work) OUTBOX_REQUIRES(mutex_);
  void gather(Ticket& ticket, Work& work) OUTBOX_REQUIRES(mutex_);
  void end_call(std::span<const Completion> finished, Followers& followers, Clock::Steady now)
      OUTBOX_REQUIRES(mutex_);
  void leave_lane(Completion& finished, Followers& followers) OUTBOX_REQUIRES(mutex_);
  void remove(const Job& job) OUTBOX_REQUIRES(mutex_);
  void pass_over(const RowRef& row) OUTBOX_REQUIRES(mutex_);
  void check_out(const Job& job) OUTBOX_REQUIRES(mutex_);
  void check_in(const Job& job) OUTBOX_REQUIRES(mutex_);
  void await_reclaimed() OUTBOX_REQUIRES(mutex_);
  void take_back(Job& job) OUTBOX_REQUIRES(mutex_);
  void returned(Job& job) OUTBOX_REQUIRES(mutex_);
  void leave_line(std::deque<Ticket>& line, int shard, std::vector<Job>& jobs)
      OUTBOX_REQUIRES(mutex_);
  bool is_idle(int shard) const OUTBOX_REQUIRES(mutex_);
  void push_held(Lane& lane, Job& job, Followers& followers) OUTBOX_REQUIRES(mutex_);
  void push_jobs_held(Lane& lane, Followers& followers) OUTBOX_REQUIRES(mutex_);
  Load& load(const Job& job) OUTBOX_REQUIRES(mutex_) { return job.hot ? hot_load_ : cold_load_; }
  void unpark(Breaker* route) OUTBOX_REQUIRES(mutex_);
  bool should_poll(bool idle) const OUTBOX_REQUIRES(mutex_);
  bool poll_while_paused() const OUTBOX_REQUIRES(mutex_);
  void ask_for_poll() OUTBOX_REQUIRES(mutex_);
  void poll_for_lanes(Clock::Steady now) OUTBOX_REQUIRES(mutex_);
  void call_worker() OUTBOX_REQUIRES(mutex_);
  void announce_quiet() OUTBOX_REQUIRES(mutex_);
  void check_rest() const OUTBOX_REQUIRES(mutex_);

  // Constant after construction.
  const WorkQueueOptions options_;
  const std::size_t lane_limit_;

  mutable Mutex mutex_;
  CondVar work_;
  CondVar quiet_;  // while draining: nothing runs
  CondVar empty_;  // nothing is in flight
  std::deque<Ticket> hot_ OUTBOX_GUARDED_BY(mutex_);
  std::deque<Ticket> cold_ OUTBOX_GUARDED_BY(mutex_);
  std::map<Breaker*, std::deque<Ticket>> parked_ OUTBOX_GUARDED_BY(mutex_);
  Lanes lanes_ OUTBOX_GUARDED_BY(mutex_);
  InFlight in_flight_ OUTBOX_GUARDED_BY(mutex_);

  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::optional<std::vector<int>> shards_ OUTBOX_GUARDED_BY(mutex_);

  Load hot_load_ OUTBOX_GUARDED_BY(mutex_);
  Load cold_load_ OUTBOX_GUARDED_BY(mutex_);
  std::size_t held_bytes_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::map<int, std::size_t> shard_held_ OUTBOX_GUARDED_BY(mutex_);

  int idle_ OUTBOX_GUARDED_BY(mutex_) = 0;    // workers that wait;
  int waking_ OUTBOX_GUARDED_BY(mutex_) = 0;  // of these, those just notified
  std::size_t running_ OUTBOX_GUARDED_BY(mutex_) = 0;
  int turn_ OUTBOX_GUARDED_BY(mutex_) = 0;
  bool has_reader_ OUTBOX_GUARDED_BY(mutex_) = false;  // somebody who takes what is left behind
  bool polling_enabled_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool poll_requested_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool polling_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool reading_quietly_ OUTBOX_GUARDED_BY(mutex_) = false;  // see admit_quietly()
  bool paused_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool draining_ OUTBOX_GUARDED_BY(mutex_) = false;
  bool lanes_forgotten_ OUTBOX_GUARDED_BY(mutex_) = false;  // in the middle of an epoch
  bool stopped_ OUTBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace outbox::internal
