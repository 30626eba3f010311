// What was taken from the store and not yet acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outbox/spi/store.h"

namespace outbox::internal {

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

  // What is checked out is reclaimed from now on.
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
