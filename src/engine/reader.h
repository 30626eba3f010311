// One round of reading: what the store has is handed to a PollHandler.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "engine/recovery.h"
#include "outbox/spi/poller.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// Reads ready rows, rows that are due, and lanes that were held, in this
// order; after a take-over from an owner that died, first its poison candidates
// (see Recovery).
//
// round() is called by one thread at a time; all else is thread-safe.
class Reader {
 public:
  // Rows that the handler did not take because their events were in flight, and that are to be
  // read again after all.
  using LeftBehind = std::function<std::vector<RowRef>()>;

  Reader(std::shared_ptr<Instance> instance, PollHandler& handler, const PollerOptions& options,
         LeftBehind left_behind = {});

  // True if there may be more to read at once. Errors of the store reach the
  // caller; nothing is lost by them.
  bool round();

  // Whether the handler refused a row in the last round; for who called that.
  bool refused() const { return refused_; }

  // From the next round on. True if it brings something new to read.
  bool set_lease(Lease lease);

  // Whether a round may still bring rows of this shard.
  bool reads(int shard) const;

  // A row waits alone until then.
  void note_due(Clock::Steady due);

  // When a round is wanted: for a row that is due, or to look whether an operator has
  // freed a lane that is blocked.
  std::optional<Clock::Steady> next_due() const;

  // This row was left behind: read it again, or give back its claim.
  void leave_behind(const RowRef& row);

  // Reads nothing more in this epoch.
  void fence(std::int64_t epoch);

  // Whether it waits for a group of candidates before it reads on; to be called
  // again once nothing is in flight.
  bool recovering() const { return recovery_.under_way(); }

  // The next round also looks at rows that are due: somebody else may have
  // written some.
  void look_at_due();

  // The next round looks at everything again, rows edited by hand included.
  void look_everywhere();

 private:
  struct Orders {
    std::optional<Lease> lease{};
    std::optional<Seq> rewind{};
    std::vector<RowRef> unclaim{};
    bool due = false;
    bool everything = false;
    bool unblocked = false;
  };
  Orders take_orders();

  void give_back(Orders orders);
  void hear_of_left_behind();
  void meet_left_behind();
  bool enter(const Lease& lease);
  void restore_lanes(int shard);
  bool read_ready();
  void read_everything();
  bool read_due();
  bool look_for_unblocked();
  bool read_lanes();
  PollHandler::LaneRead next_lane();
  void read_lane(const PollHandler::LaneRead& lane, bool candidate);
  bool is_fenced() const;
  bool read_claims();
  bool hand_over_claims(Rows read);
  bool try_claimed_candidates();
  bool read_candidates();
  enum class Handed {
    all,
    not_recent,  // all but those that are too recent
    some,        // there was no room for the rest
  };
  Handed hand_over(std::vector<Row>& rows);
  ReadLimit limited(std::size_t rows, std::size_t bytes) const;
  template <class Read>
  Read of_this_epoch(Read read);
  bool hand(Row row);
  bool too_recent(const Row& row);

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  PollHandler& handler_;
  const LeftBehind left_behind_by_handler_;
  const PollerOptions options_;
  const Clock& clock_;

  // Used by round() only.
  std::int64_t epoch_ = 0;
  std::vector<int> shards_;
  bool refused_ = false;
  std::vector<Seq> read_through_;  // by shard: ready rows up to here have been met
  Recovery recovery_;

  mutable Mutex mutex_;
  Lease known_ OUTBOX_GUARDED_BY(mutex_);
  std::int64_t fenced_ OUTBOX_GUARDED_BY(mutex_) = 0;
  std::vector<int> reading_ OUTBOX_GUARDED_BY(mutex_);  // shards_ and those to be, for others
  Orders orders_ OUTBOX_GUARDED_BY(mutex_);
  std::map<int, Seq> left_behind_ OUTBOX_GUARDED_BY(mutex_);     // the first, by shard
  std::set<Clock::Steady> due_times_ OUTBOX_GUARDED_BY(mutex_);  // the earliest
  Clock::Steady look_for_unblocked_at_ OUTBOX_GUARDED_BY(mutex_){};
};

}  // namespace outbox::internal
