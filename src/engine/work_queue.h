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
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "engine/breaker.h"
#include "engine/job.h"
#include "engine/lane.h"
#include "outbox/options.h"
#include "outbox/spi/poller.h"

namespace outbox::internal {

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
};

// Hands jobs to workers: from the hot and the cold queue 2:1, from a lane one
// at a time, for a listener that is open only as many as it may get. The
// others for that one wait here; where they would fill the queue and others
// listen as well, they are postponed in the store instead.
//
// Capacity is taken when an event is admitted and given back when its update has
// acked, so that it bounds everything that a crash could deliver twice.
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

  // `full`: also if the job is of another epoch than the current one.
  // `hold`, `park`: the job was not queued; its lane waits, and the caller
  // submits the update that holds the row or makes it DEAD as well.
  enum class Admission { queued, hold, park, full };
  Admission admit(Job& job);

  // The same for a job that no reader brings: only of a shard to be read.
  Admission admit_direct(Job& job);

  // The shards to be read from now on; nullopt: rows are owned one by one. Lanes of
  // which something is away since an earlier lease wait for it; see reclaim().
  void own(std::optional<std::vector<int>> shards);
  // Whether events of a shard may be admitted directly.
  bool takes_directly(int shard) const;

  // The same for the rows of a read: workers are called once, by read_ends(),
  // not for each of them.
  Admission admit_quietly(Job& job);
  void read_ends();

  // The same in two steps, for a job that is marked in between. False: not
  // admitted; `full`: its lease has ended meanwhile, see reclaim(). A lane set
  // held is not read before its row has come: through begin(), or through
  // acked() with Decision::Kind::begin.
  bool reserve(Job& job);
  Admission begin(Job& job);

  std::size_t room(bool hot) const;
  std::size_t room_bytes() const;
  std::size_t held_bytes() const;
  std::size_t depth(bool hot) const;
  std::size_t in_flight() const;

  // --- Lanes with rows held (see Lanes) ---

  void restore(const HeldLane& lane, Clock::Steady now);
  PollHandler::LaneRead next_lane(std::span<const Seq> read_through, Clock::Steady now);

  // The rows of a lane, as read from the lowest on.
  struct LanePage {
    std::int64_t epoch = 0;              // in which they were read
    std::vector<Job> jobs{};             // those that can be delivered now
    bool blocked = false;                // then comes a DEAD one,
    std::optional<Clock::Steady> due{};  // or one that is due only later,
    Seq open_after = 0;                  // or one that others may come before,
    bool more = false;                   // or the limit cut the result
  };
  // Returns the jobs if they are of a lease that has ended.
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
    std::vector<Job> park{};     // to be marked DEAD as well,
    std::vector<Job> dropped{};  // to be read again: held in the store already

    std::size_t stale = 0;  // updates that came to nothing, because their lease has ended

    // The listener has just been paused, or is well again.
    bool paused = false;
    bool closed_again = false;
  };

  // All jobs of a take() are over. Rewrites a decision that counts differently by now; see
  // Decision. The caller submits the updates of those that are done, wait, skip or block, and
  // after these the updates of the followers; what is dropped it hands to reclaim().
  Followers finish(std::span<Completion> finished, Clock::Steady now);

  // The same for a job that was to be postponed: no listener was called.
  Followers postponed(std::span<Completion> finished, Clock::Steady now);

  // The updates of admitted jobs have been acknowledged, or were found stale. (What is stale
  // because its lease has ended goes to reclaim() instead.)
  void acked(std::span<const Completion> completions, Clock::Steady now);

  // A job is not ours any more, or was not when its lease ended. True: it is
  // again, and its lane has waited for it; the caller holds it, with those
  // behind it, so that they are read in order. False: it is let go of.
  //
  // Until the caller has told the gate, no lease may begin: whoever reads in the
  // new one must meet the row, or find its lane waiting.
  bool reclaim(Job& job);

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
  // epoch are not admitted, and those that are away are no longer ours. Their
  // lanes wait for them all the same, and then deliver them again first.
  std::vector<Job> enter(std::int64_t epoch);

  void stop();

  // --- Calls that hang, and shards that are given up ---

  // A call has been running this job for too long. It keeps its worker, and its lane
  // waits; nobody else waits for it from now on.
  void hangs(const Job& job);

  // In flight, without what hangs, so many whose updates are refused, and what stands behind
  // them in their lanes.
  std::size_t active(std::size_t refused = 0) const;

  // Removes what has not begun of a shard that is being given up, but for candidates.
  std::vector<Job> shed(int shard);

  // A job that hangs is to be postponed in the store, so that the next owner of its
  // shard holds it while the call goes on. True: the caller submits that update, and
  // says when it has been acknowledged, or that it has not before the lease ended.
  bool begin_hand_over(const Job& job);
  void handed_over(const Job& job, bool acked);
  bool hung_are_handed_over() const;

  // Whether nothing of a shard is in flight, but for what was handed over.
  bool shard_idle(int shard) const;

  // The shard, if it is idle, is not ours any more. What was handed over is not marked when
  // it returns; should the shard come back before that, its lane waits for it; see reclaim().
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

  // Admitted and not yet marked; of these, not yet taken by a worker.
  struct Load {
    std::size_t held = 0;
    std::size_t queued = 0;
  };

  Admission take_in(Job& job) OUTBOX_REQUIRES(mutex_);
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
  void check_out(const Job& job) OUTBOX_REQUIRES(mutex_);
  void check_in(const Job& job) OUTBOX_REQUIRES(mutex_);
  void await_reclaimed() OUTBOX_REQUIRES(mutex_);
  void take_back(Job& job) OUTBOX_REQUIRES(mutex_);
  void returned(Job& job) OUTBOX_REQUIRES(mutex_);
  void leave_line(std::deque<Ticket>& line, int shard, std::vector<Job>& jobs)
      OUTBOX_REQUIRES(mutex_);
  std::size_t handed_over_of(int shard) const OUTBOX_REQUIRES(mutex_);
  bool is_idle(int shard) const OUTBOX_REQUIRES(mutex_);
  void push_held(Lane& lane, Job& job, Followers& followers) OUTBOX_REQUIRES(mutex_);
  void push_jobs_held(Lane& lane, Followers& followers) OUTBOX_REQUIRES(mutex_);
  Load& load(const Job& job) OUTBOX_REQUIRES(mutex_) { return job.hot ? hot_load_ : cold_load_; }
  void unpark(Breaker* route) OUTBOX_REQUIRES(mutex_);
  bool should_poll(bool idle) const OUTBOX_REQUIRES(mutex_);
  bool poll_while_paused() const OUTBOX_REQUIRES(mutex_);
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

  // In flight and not in the queue: what runs, and what waits for its update to land; of
  // this lease, and the reclaimed events of earlier ones.
  struct CheckedOut {
    int shard = 0;
    std::size_t jobs = 0;
  };
  using CheckedOutByLane = std::unordered_map<LaneKey, CheckedOut>;
  CheckedOutByLane checked_out_ OUTBOX_GUARDED_BY(mutex_);
  CheckedOutByLane reclaimed_ OUTBOX_GUARDED_BY(mutex_);

  // Lanes come and go with every event: the memory of those that went.
  std::vector<CheckedOutByLane::node_type> spare_checked_out_ OUTBOX_GUARDED_BY(mutex_);

  // Jobs whose call hangs, by event id.
  struct Hung {
    enum class State : std::uint8_t {
      running,       // its lane waits
      handing_over,  // the update that postpones it is on its way
      handed_over,   // it has been acknowledged
      released,      // and so the shard was given up
    };
    LaneKey lane = kNoLane;
    int shard = 0;
    bool reclaimed = false;  // of an earlier lease
    State state = State::running;
  };
  std::map<std::string, Hung, std::less<>> hung_ OUTBOX_GUARDED_BY(mutex_);

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
