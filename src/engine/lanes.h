// What an engine holds: which events are in flight, and the lanes that keep the order within an
// aggregate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/job.h"
#include "outbox/clock.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// A lane whose rows, held in the store, should be read now. A zero key: none.
struct LaneRead {
  LaneKey key = kNoLane;
  int shard = 0;
  std::size_t limit = 0;
  std::size_t bytes = 0;  // see ReadLimit
  Seq read_through = 0;   // how far its shard had been read
};

// The events of one aggregate, in order. (Aggregates whose 63-bit keys collide share a lane: they
// wait for one another and stay in order.)
//
// Two things are known of a lane: what its first event is doing, and whether rows of it are held
// in the store behind the jobs that it has here. Both change only through the transitions below.
class Lane {
 public:
  // What its first event is doing.
  enum class State : std::uint8_t {
    idle,          // nothing: it may stand in line, or be read
    queued,        // it stands in line
    running,       // it is with a worker
    awaiting_ack,  // its update is on its way: nothing of the lane runs before that is acknowledged
    handing_over,  // both: its call hangs, and is being left to the next owner of the shard
  };

  // Where its later rows are.
  enum class Tail : std::uint8_t {
    none,     // here, or not read yet
    held,     // held in the store, or on their way there: what the reader meets goes behind them
    blocked,  // held behind a DEAD event, until an operator has acted
  };

  LaneKey key() const { return key_; }
  int shard() const { return shard_; }
  State state() const { return state_; }
  bool idle() const { return state_ == State::idle; }
  bool frozen() const { return state_ == State::awaiting_ack || state_ == State::handing_over; }
  bool held() const { return tail_ != Tail::none; }
  bool blocked() const { return tail_ == Tail::blocked; }

  // Whether it was blocked when it was last read, and may still be: it is being looked at again.
  bool in_doubt() const { return in_doubt_; }

  bool failing() const { return failing_; }
  std::size_t holds_pending() const { return holds_pending_; }
  std::size_t read_back() const { return read_back_; }
  const std::deque<Job>& jobs() const { return jobs_; }
  Job& first() { return jobs_.front(); }

  // Whether a job came from the rows that were held in it.
  bool was_held(const Job& job) const { return job.row.ref.hold == key_; }

  // --- What its first event does ---

  void stand_in_line();           // idle -> queued
  void leave_line();              // queued -> idle
  Job start_first();              // queued, running -> running
  void end_call();                // running -> idle, handing_over -> awaiting_ack
  void await_ack();               // idle -> awaiting_ack, running -> handing_over
  void go_on();                   // awaiting_ack -> idle, handing_over -> running
  void acked(Clock::Steady due);  // the same; held rows are not to be read before `due`

  // Whether its head has failed and has not been delivered since.
  void head_failed() { failing_ = true; }
  void head_finished() { failing_ = false; }

  // --- Its jobs ---

  void push(Job job) { jobs_.push_back(std::move(job)); }
  void push_first(Job job) { jobs_.push_front(std::move(job)); }
  std::deque<Job> take_jobs() { return std::exchange(jobs_, {}); }

  // --- Its rows in the store ---

  void hold();          // none -> held
  void nothing_held();  // held -> none
  void first_row_seen() { in_doubt_ = false; }

  // An update that holds a row is on its way; it was acknowledged.
  void hold_submitted() { ++holds_pending_; }
  void hold_acked() { --holds_pending_; }

  // An event waits for its crash count to be stored, and has its place here only then; whether
  // there is one that comes before `seq`.
  void expect(Seq seq) { expected_.push_back(seq); }
  void came(Seq seq) { std::erase(expected_, seq); }
  bool expects_any() const { return !expected_.empty(); }
  bool expects_before(Seq seq) const {
    return std::any_of(expected_.begin(), expected_.end(), [&](Seq each) { return each < seq; });
  }

  // A held row was read, and is not finished yet; it is.
  void held_row_read() { ++read_back_; }
  void held_row_left() { --read_back_; }

  // Held rows are not to be read before that time, nor before the shard has been read that far.
  void read_not_before(Clock::Steady due) { due_ = due; }
  void read_after(Seq seq) { open_after_ = std::max(open_after_, seq); }

 private:
  friend class Lanes;

  void start(LaneKey key, int shard);

  LaneKey key_ = kNoLane;
  int shard_ = 0;
  State state_ = State::idle;
  Tail tail_ = Tail::none;
  bool failing_ = false;
  bool in_doubt_ = false;
  bool rechecked_ = false;  // a DEAD event stood first when it was last read
  std::size_t holds_pending_ = 0;
  std::size_t read_back_ = 0;
  std::vector<Seq> expected_{};
  Clock::Steady due_{};
  Seq open_after_ = 0;

  std::optional<Clock::Steady> listed_{};  // under which time in Lanes::readable_
  std::uint64_t turn_ = 0;                 // while it is blocked: its place in Lanes::blocked_

  std::deque<Job> jobs_{};
};

// All lanes, and which of them want their rows back that were held.
//
// Invariants, for every lane:
//   1. Rows enter it in the order in which they may be delivered, and only the
//      first may run.
//   2. While it is frozen nothing of it runs. DONE does not freeze a lane: the
//      next event follows at once.
//   3. While it has held rows, a row that the reader meets is held too,
//      never past them. They are read back only when the lane is empty, not
//      frozen, and every `hold` update has been acknowledged.
//      Nor does anything pass an event that waits for its crash count to be stored: held
//      rows are not read back meanwhile, and later ones that the reader meets are held.
//   4. Rows that were held under another kind of order, before a restart,
//      come first: while the only lane of a total order is there, everything
//      of its shard goes through it; and the only lane waits until all others
//      of its shard are gone.
//   5. The update of a failing head is submitted before the `hold` updates of its
//      followers, and updates are applied in that order; so a crash
//      cannot leave followers held without the head that they wait for.
//
// Not thread-safe: guarded by the WorkQueue.
class Lanes {
 public:
  Lane& at(LaneKey key, int shard);
  Lane* find(LaneKey key);
  const Lane* find(LaneKey key) const;
  std::vector<Lane*> of_shard(int shard);

  // Invariant 4.
  LaneKey lane_for(LaneKey key, int shard) const {
    return lanes_.contains(only_lane(shard)) ? only_lane(shard) : key;
  }
  bool behind_others(const Lane& lane) const {
    return lane.key_ == only_lane(lane.shard_) && any_other_of_shard(lane);
  }

  // To be called after every change to a lane: lists it if it wants its rows
  // back, and forgets it if it is of no use any more. True if its first event
  // may now stand in line.
  [[nodiscard]] bool update(Lane& lane);

  void restore(const HeldLane& held, Clock::Steady now);

  // The next lane whose held rows should be read, given how far each shard
  // has been read; null if none.
  Lane* next_readable(std::span<const Seq> read_through, Clock::Steady now);
  std::optional<Clock::Steady> next_due() const;

  // A DEAD event stands first in it: nothing of it is read until an operator has
  // acted. unblock() has one such lane looked at again (null: it is none), and
  // recheck_blocked() up to `n` of them, in turns; was_rechecked() tells, once, whether this one
  // was among them.
  void block(Lane& lane);
  void unblock(Lane* lane);
  void recheck_blocked(std::size_t n);
  bool was_rechecked(Lane& lane) { return std::exchange(lane.rechecked_, false); }
  bool any_blocked() const { return !blocked_.empty(); }

  // Forget lanes, with all that is queued in them.
  std::vector<Job> clear();
  void forget_shard(int shard);

  // How many jobs are in lanes that are frozen or one of these.
  std::size_t jobs_that_wait(const std::set<LaneKey>& waiting) const;

  // Whether no lane has anything of an event that is in flight.
  bool at_rest() const;

  std::size_t size() const { return lanes_.size(); }

 private:
  using Map = std::unordered_map<LaneKey, Lane>;

  bool any_other_of_shard(const Lane& lane) const;
  void unlist(Lane& lane);
  void take_from_blocked(Lane& lane);
  void forget(LaneKey key);

  Map lanes_;

  // Lanes come and go with every event of an aggregate that has no other: the
  // memory of those that went serves those that come.
  std::vector<Map::node_type> spare_;
  std::set<std::pair<Clock::Steady, LaneKey>> readable_;
  std::map<std::uint64_t, LaneKey> blocked_;  // by turn
  std::uint64_t last_turn_ = 0;
};

// Which events are in flight, by their ids; how many of each lane are; and which calls hang.
//
// Invariants:
//   1. An event enters before anybody can work on it, and leaves once its update has been
//      acknowledged AND every read that began before that has been filtered: a read's snapshot may
//      be older than the update, and would deliver the event a second time. One that leaves while
//      a read is under way waits, pending release, until that ends.
//   2. Of each lane it is known how many events are checked out: in flight, and not in the queue.
//      When a lease ends they become reclaimed ones, and their lane waits for the last of them.
//   3. A row that a reader may have passed while its event was in flight is left behind in the step
//      in which the event leaves, before its lane may go on.
//   4. A call that hangs has its event checked out, or, once its shard was given up, reclaimed.
//
// Not thread-safe: guarded by the WorkQueue.
class InFlight {
 public:
  // Without ids, somebody else knows which events are in flight.
  explicit InFlight(bool by_id) : by_id_(by_id) {}

  // --- By event id ---

  // In flight, or pending release: while a read is under way, it stays so until that ends.
  bool contains(std::string_view event_id) const {
    return !ids_.empty() && ids_.find(event_id) != ids_.end();
  }
  void add(std::string_view event_id);  // which it does not contain
  void remove(std::string_view event_id);

  // For an event that is being written; takes it out of pending release: its row was rolled back,
  // and is written once more. What a read under way finds of it is still filtered. False: it is in
  // flight.
  bool reserve(std::string_view event_id);

  // Brackets a read and the handling of its rows. One read at a time.
  void read_begins() { reading_ = true; }
  void read_ends();

  // Without those pending release, and with them.
  std::size_t size() const { return ids_.size() - release_pending_.size(); }
  std::size_t all() const { return ids_.size(); }

  // --- By lane ---

  void check_out(LaneKey lane, int shard);

  // True: it was the last reclaimed one of its lane.
  bool check_in(LaneKey lane, bool of_this_lease);

  // Events that are checked out are reclaimed from now on.
  void end_lease();

  struct OfLane {
    int shard = 0;
    std::size_t events = 0;
  };
  using ByLane = std::unordered_map<LaneKey, OfLane>;
  const ByLane& reclaimed() const { return reclaimed_; }

  // --- Rows that a reader may have passed ---

  void leave_behind(const RowRef& row) { left_behind_.push_back(row); }
  std::vector<RowRef> take_left_behind() { return std::exchange(left_behind_, {}); }

  // --- Calls that hang ---

  enum class Call : std::uint8_t {
    returns,       // it does not hang, or not any more
    hangs,         // its lane waits
    handing_over,  // the update that postpones it is on its way
    handed_over,   // that has been acknowledged
    released,      // and so the shard was given up
  };

  void hangs(std::string_view event_id, LaneKey lane, int shard, bool of_this_lease);

  bool is_hung(std::string_view event_id) const { return hung_.contains(event_id); }

  // The call has come to an end after all. How it stood until then.
  Call returned(std::string_view event_id);

  bool begin_hand_over(std::string_view event_id);
  void end_hand_over(std::string_view event_id, bool acked);
  bool all_handed_over() const;
  std::size_t handed_over_of(int shard) const;

  // The shard is given up with the calls that were handed over.
  void release_handed_over(int shard);

  std::size_t hung() const { return hung_.size(); }
  std::set<LaneKey> hung_lanes() const;  // of this lease

  // Whether nothing is known of any event, but ids.
  bool at_rest() const { return checked_out_.empty() && reclaimed_.empty() && hung_.empty(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  // The value: whether it is pending release.
  using Ids = std::unordered_map<std::string, bool, Hash, std::equal_to<>>;

  struct Hung {
    LaneKey lane = kNoLane;
    int shard = 0;
    bool reclaimed = false;  // of an earlier lease
    Call call = Call::hangs;
  };

  void forget(Ids::const_iterator id);

  const bool by_id_;
  Ids ids_;
  std::vector<const std::string*> release_pending_;  // keys of ids_
  bool reading_ = false;
  std::vector<RowRef> left_behind_;

  ByLane checked_out_;
  ByLane reclaimed_;
  std::map<std::string, Hung, std::less<>> hung_;  // by event id

  // Ids and lanes come and go with every event: the memory of those that went.
  std::vector<Ids::node_type> spare_ids_;
  std::vector<ByLane::node_type> spare_lanes_;
};

}  // namespace outbox::internal
