// When to read, and what: rows of the store go to an Intake.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/outage.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "engine/intake.h"
#include "engine/lease_keeper.h"
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
  Reader(std::shared_ptr<Instance> instance, Intake& intake, const PollerOptions& options);

  // True if there may be more to read at once. Errors of the store reach the
  // caller; nothing is lost by them.
  bool round();

  // Whether the intake refused a row in the last round; for who called that.
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
  LaneRead next_lane();
  void read_lane(const LaneRead& lane, bool candidate);
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
  Intake& intake_;
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

// Decides when to read: after commits, when something is due, now and then; and keeps the lease,
// which says what. Where an engine's workers read, they are told that a read is wanted, and call
// read(); else the thread of the lease keeper does. Thread-safe.
class Poller final : public LeaseHolder {
 public:
  // `options` as checked() returned them.
  Poller(std::shared_ptr<Instance> instance, Intake& intake, PollerOptions options);

  void start() { keeper_.start(); }
  void stop() {
    keeper_.stop();
    owner_ = false;
  }

  // Reads once, if nobody else is reading, and says whether there may be more
  // at once. Never throws: an error is logged, and another read follows.
  bool read();

  // The same, but errors reach the caller, and ownership is sought first.
  bool read_now();

  // Something was committed here: new rows are ready.
  void wake();

  // Somebody has committed something.
  void committed();

  // Anything may have happened.
  void look_everywhere();

  void rows_due(std::span<const Clock::Steady> due);
  void leave_behind(const RowRef& row) { reader_.leave_behind(row); }
  void emptied();
  void timer_changed() { keeper_.wake(); }
  void fenced(std::int64_t epoch);

  bool owner() const { return owner_; }
  bool on_own_thread() const { return keeper_.on_own_thread(); }

  // That events cannot be read, or the lease not be renewed.
  const Outage& reading() const { return reading_; }
  const Outage& renewing() const { return keeper_.outage(); }
  const Outage& given_up() const { return keeper_.given_up(); }

  // --- For its lease keeper ---

  void on_lease(const Lease& lease, Clock::Steady valid_until) override;
  std::string stalled() override;
  bool able() override { return intake_.able(); }
  std::optional<Clock::Steady> tick() override;

 private:
  std::optional<Clock::Steady> do_what_is_due();
  bool request_read();

  // Constant after construction.
  const std::shared_ptr<Instance> instance_;
  Intake& intake_;
  const PollerOptions options_;
  const Clock& clock_;

  Mutex round_;
  bool more_ = false;  // what read_now() said last; guarded by round_
  Reader reader_;
  RateLimit warnings_{std::chrono::seconds{10}};
  Outage reading_;
  Atomic<Clock::Steady> read_began_{Clock::Steady::max()};  // of the one under way
  Atomic<bool> owner_{false};
  Atomic<bool> wanted_{false};  // by the keeper's thread
  Atomic<Clock::Steady> retry_at_{Clock::Steady::max()};
  Atomic<Clock::Steady> scheduled_{Clock::Steady::max()};  // when tick() is called again

  Atomic<Clock::Steady> owner_since_{Clock::Steady{}};

  // Used by the keeper's thread only.
  Clock::Steady next_sweep_{};

  LeaseKeeper keeper_;  // last: its thread uses all of the above
};

}  // namespace outbox::internal
