#include "engine/reader.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "outbox/error.h"

namespace outbox::internal {
namespace {

constexpr Seq kEverything = std::numeric_limits<Seq>::max();
constexpr Seq kNothing = -1;
constexpr std::size_t kLanesAtOnce = 1'000;

// While lanes are blocked: how long it takes at most to notice that one was freed.
constexpr std::chrono::milliseconds kLookForUnblocked{500};

// With row claims: how many due times are remembered. What is due after these
// is found by a sweep.
constexpr std::size_t kDueTimes = 10'000;

// How many candidates are tried together, by the deaths that they have seen:
// first many, then few, then each alone.
constexpr int kDeathsInCompany = 2;
std::size_t group_size(int crashes) {
  if (crashes == 0) return 64;
  if (crashes < kDeathsInCompany) return 8;
  return 1;
}

// Brackets a read and the handling of its rows, also when either throws.
class Bracket {
 public:
  Bracket(PollHandler& handler, std::int64_t epoch) : handler_(handler) {
    handler_.read_begins(epoch);
  }
  ~Bracket() { handler_.read_ends(); }
  Bracket(const Bracket&) = delete;
  Bracket& operator=(const Bracket&) = delete;

 private:
  PollHandler& handler_;
};

}  // namespace

Reader::Reader(std::shared_ptr<Instance> instance, PollHandler& handler,
               const PollerOptions& options)
    : instance_(std::move(instance)),
      handler_(handler),
      options_(options),
      clock_(options.clock != nullptr ? *options.clock : host_clock()) {}

// --- Orders ---

bool Reader::set_lease(Lease lease) {
  MutexLock lock(mutex_);
  const bool news = lease.epoch != known_.epoch || lease.shards != known_.shards;
  known_ = lease;
  if (orders_.lease) {
    // The last one was not seen yet: its inheritance counts all the same.
    auto& older = orders_.lease->inherited;
    if (orders_.lease->epoch == lease.epoch) {
      lease.inherited.insert(lease.inherited.end(), older.begin(), older.end());
    }
  }
  orders_.lease = std::move(lease);
  return news;
}

bool Reader::reads(int shard) const {
  MutexLock lock(mutex_);
  return std::find(reading_.begin(), reading_.end(), shard) != reading_.end();
}

void Reader::note_due(Clock::Steady due) {
  MutexLock lock(mutex_);
  due_times_.insert(due);
  // A read of due rows tells when the next one is; a claim does not.
  const std::size_t kept = options_.row_claims ? kDueTimes : 1;
  if (due_times_.size() > kept) due_times_.erase(std::prev(due_times_.end()));
}

std::optional<Clock::Steady> Reader::next_due() const {
  const bool any_blocked = handler_.any_blocked();
  MutexLock lock(mutex_);
  std::optional<Clock::Steady> next;
  if (any_blocked) next = look_for_unblocked_at_;
  if (!due_times_.empty())
    next = std::min(next.value_or(Clock::Steady::max()), *due_times_.begin());
  return next;
}

void Reader::leave_behind(const RowRef& row) {
  MutexLock lock(mutex_);
  if (options_.row_claims) orders_.unclaim.push_back(row);
  orders_.rewind = std::min(orders_.rewind.value_or(row.seq), row.seq);
  Seq& first = left_behind_.try_emplace(row.shard, row.seq).first->second;
  first = std::min(first, row.seq);
  if (row.hold < 0) orders_.due = true;
}

void Reader::fence(std::int64_t epoch) {
  MutexLock lock(mutex_);
  fenced_ = epoch;
}

bool Reader::is_fenced() const {
  MutexLock lock(mutex_);
  return fenced_ == epoch_;
}

void Reader::look_at_due() {
  MutexLock lock(mutex_);
  orders_.due = true;
}

void Reader::look_everywhere() {
  MutexLock lock(mutex_);
  orders_.rewind = 0;
  orders_.due = true;
  orders_.everything = true;
}

Reader::Orders Reader::take_orders() {
  MutexLock lock(mutex_);
  Orders orders = std::exchange(orders_, {});
  // From now on, not only once it has been entered: that may take long.
  if (orders.lease) {
    reading_.insert(reading_.end(), orders.lease->shards.begin(), orders.lease->shards.end());
  }
  // Forgotten before the read begins: whatever is noted from now on is looked
  // at in the next round.
  const Clock::Steady now = clock_.steady();
  const auto later = due_times_.upper_bound(now);
  if (later != due_times_.begin()) orders.due = true;
  orders.unblocked = orders.due || now >= look_for_unblocked_at_;
  if (orders.unblocked) look_for_unblocked_at_ = now + kLookForUnblocked;
  if (orders.due) {
    due_times_.erase(due_times_.begin(), options_.row_claims ? later : due_times_.end());
  }
  return orders;
}

// --- A round ---

bool Reader::round() {
  Orders orders = take_orders();
  refused_ = false;
  meet_left_behind();
  try {
    orders.unblocked = orders.unblocked && handler_.any_blocked();
    if (orders.lease && enter(*orders.lease)) {
      orders.due = true;
      orders.unblocked = true;  // also what was left for an owner that died
    }
    orders.lease.reset();
    if (orders.rewind) instance_->rewind(*orders.rewind);
    orders.rewind.reset();
    if (!orders.unclaim.empty()) instance_->unclaim(orders.unclaim);
    orders.unclaim.clear();
    if (epoch_ == 0 || is_fenced()) return false;
    if (options_.row_claims) return read_claims();
    bool more = orders.unblocked && look_for_unblocked();
    if (orders.everything) handler_.recheck_blocked();
    if (recovering_ && !read_candidates()) {
      // What is due waits for the end of the candidates, which wakes the reader; a time that has
      // come already would have it look again and again until then.
      if (orders.due) look_at_due();
      // Where nothing is under way, nobody will come back and say so.
      return handler_.active() == 0;
    }
    more = read_ready() || more;
    if (orders.due) more = read_due() || more;
    return read_lanes() || more;
  } catch (...) {
    give_back(std::move(orders));
    throw;
  }
}

// What was not carried out is for the next round.
void Reader::give_back(Orders orders) {
  for (const RowRef& row : orders.unclaim) leave_behind(row);
  if (orders.due) note_due(clock_.steady());
  MutexLock lock(mutex_);
  if (orders.rewind) {
    orders_.rewind = std::min(orders_.rewind.value_or(*orders.rewind), *orders.rewind);
  }
  if (!orders.lease) return;
  if (!orders_.lease) {
    orders_.lease = std::move(orders.lease);
  } else if (orders_.lease->epoch == orders.lease->epoch) {
    auto& inherited = orders_.lease->inherited;
    inherited.insert(inherited.end(), orders.lease->inherited.begin(),
                     orders.lease->inherited.end());
  }
}

// True if rows may be due that this instance does not know of.
bool Reader::enter(const Lease& lease) {
  if (lease.epoch != epoch_) {
    epoch_ = lease.epoch;
    shards_.clear();
    read_through_.clear();
    end_suspicion();
    instance_->rewind(0);
  }
  std::vector<int> gained;
  for (const int shard : lease.shards) {
    if (std::find(shards_.begin(), shards_.end(), shard) == shards_.end()) gained.push_back(shard);
  }
  for (const int shard : shards_) {
    // A shard that is being given up is not read any more, nor are its lanes.
    if (std::find(lease.shards.begin(), lease.shards.end(), shard) == lease.shards.end()) {
      read_through_[static_cast<std::size_t>(shard)] = kNothing;
    }
  }
  for (const int shard : gained) {
    const auto index = static_cast<std::size_t>(shard);
    if (read_through_.size() <= index) read_through_.resize(index + 1, 0);
    read_through_[index] = 0;
    restore_lanes(shard);
    shards_.push_back(shard);  // should the next one fail, this one need not be repeated
  }
  if (!gained.empty()) instance_->rewind(0);
  for (const Lease::Inherited& inherited : lease.inherited) {
    candidate(inherited.candidates);
  }
  shards_ = lease.shards;
  MutexLock lock(mutex_);
  reading_ = lease.shards;
  return !gained.empty();
}

// Before the first row of the shard is admitted: a row must not pass those of
// its lane that were held before.
void Reader::restore_lanes(int shard) {
  for (LaneKey after = 0;;) {
    const std::vector<HeldLane> lanes = instance_->held_lanes(shard, after, kLanesAtOnce);
    for (const HeldLane& lane : lanes) handler_.restore(lane);
    if (lanes.size() < kLanesAtOnce) return;
    after = lanes.back().key;
  }
}

ReadLimit Reader::limited(std::size_t rows, std::size_t bytes) const {
  return {rows, bytes, [this](std::string_view event_id) { return handler_.has(event_id); }};
}

// A renewal that found another primary has registered there, and was not answered, or has not come
// back yet: then the rows are those of the next epoch, and others may own their shards by now.
template <class Read>
Read Reader::of_this_epoch(Read read) {
  if (instance_->epoch() == epoch_) return read;
  if (options_.row_claims) {
    for (const Row& row : read.rows) leave_behind(row.ref);
  }
  throw RetryableError(
      "this instance has registered anew since its lease began; what was read now belongs to the "
      "next one");
}

bool Reader::read_ready() {
  const std::size_t limit = std::min(options_.batch, handler_.room());
  if (limit == 0) return true;
  const Bracket bracket(handler_, epoch_);
  Rows read = of_this_epoch(
      instance_->ready(shards_, handler_.in_flight(), limited(limit, handler_.room_bytes())));
  const Handed handed = hand_over(read.rows);
  if (handed == Handed::all && !read.more) read_everything();
  if (handed == Handed::not_recent) return false;  // their time has been noted
  return read.more || handed == Handed::some;
}

void Reader::read_everything() {
  for (const int shard : shards_) read_through_[static_cast<std::size_t>(shard)] = kEverything;
}

// What is not handed over is read again.
Reader::Handed Reader::hand_over(std::vector<Row>& rows) {
  Handed result = Handed::all;
  Seq left = kEverything;
  for (Row& row : rows) {
    const Seq seq = row.ref.seq;
    const auto shard = static_cast<std::size_t>(row.ref.shard);
    if (result != Handed::some && too_recent(row)) {
      result = Handed::not_recent;
    } else if (result != Handed::some && hand(std::move(row))) {
      if (shard < read_through_.size()) read_through_[shard] = std::max(read_through_[shard], seq);
      continue;
    } else {
      result = Handed::some;
    }
    left = std::min(left, seq);
  }
  if (left != kEverything) instance_->rewind(left);
  return result;
}

bool Reader::hand(Row row) {
  const bool taken = handler_.handle(checked_for_poison(std::move(row)));
  if (!taken) refused_ = true;
  return taken;
}

bool Reader::too_recent(const Row& row) {
  if (options_.skip_recent.count() == 0) return false;
  const auto left = options_.skip_recent - (clock_.now() - row.event.occurred_at());
  if (left <= left.zero()) return false;
  note_due(clock_.steady() + left);
  return true;
}

bool Reader::read_due() {
  const std::size_t limit = std::min(options_.batch, handler_.room());
  if (limit == 0) {
    note_due(clock_.steady());
    return true;
  }
  const Bracket bracket(handler_, epoch_);
  DueRows read = of_this_epoch(
      instance_->due(shards_, limited(limit + handler_.in_flight(), handler_.room_bytes())));
  if (read.next_in) note_due(clock_.steady() + *read.next_in);
  for (Row& row : read.rows) {
    if (hand(std::move(row))) continue;
    read.more = true;
    break;
  }
  if (read.more) note_due(clock_.steady());
  return read.more;
}

// Before lanes are read: the read that follows meets what has freed them.
bool Reader::look_for_unblocked() {
  const std::vector<LaneRef> lanes = instance_->unblocked(shards_, kLanesAtOnce);
  handler_.unblocked(lanes);
  if (lanes.size() < kLanesAtOnce) return false;
  MutexLock lock(mutex_);
  look_for_unblocked_at_ = clock_.steady();
  return true;
}

// Rows that were left behind have not been met after all.
void Reader::meet_left_behind() {
  MutexLock lock(mutex_);
  for (const auto& [shard, seq] : left_behind_) {
    const auto index = static_cast<std::size_t>(shard);
    if (index >= read_through_.size()) continue;
    read_through_[index] = std::min(read_through_[index], seq - 1);
  }
  left_behind_.clear();
}

// A row is left behind before its lane may go on. So whatever lets this lane be read now has told
// of the rows that were left behind in it.
PollHandler::LaneRead Reader::next_lane() {
  PollHandler::LaneRead lane = handler_.next_lane(read_through_);
  if (lane.key == kNoLane) return lane;
  meet_left_behind();
  lane.read_through =
      std::min(lane.read_through, read_through_[static_cast<std::size_t>(lane.shard)]);
  return lane;
}

bool Reader::read_lanes() {
  for (std::size_t n = 0; n < options_.batch; ++n) {
    const PollHandler::LaneRead lane = next_lane();
    if (lane.key == kNoLane) return false;
    read_lane(lane, false);
  }
  return true;
}

void Reader::read_lane(const PollHandler::LaneRead& lane, bool candidate) {
  const Bracket bracket(handler_, epoch_);
  Rows rows;
  try {
    rows = of_this_epoch(instance_->held(lane.shard, lane.key, limited(lane.limit, lane.bytes)));
  } catch (...) {
    // The handler has struck it off its list: it is still wanted.
    handler_.load_lane(lane, {.more = true}, false);
    throw;
  }
  for (Row& row : rows.rows) row = checked_for_poison(std::move(row));
  handler_.load_lane(lane, std::move(rows), candidate);
}

bool Reader::read_claims() {
  if (recovering_) {
    if (handler_.active() > 0) return false;
    if (!claimed_candidates_.empty()) return try_claimed_candidates();
    end_suspicion();
  }
  const std::size_t limit = std::min(options_.batch, handler_.room());
  if (limit == 0) return true;
  const Bracket bracket(handler_, epoch_);
  return hand_over_claims(
      of_this_epoch(instance_->claim(options_.skip_recent, limited(limit, handler_.room_bytes()))));
}

// What is not handed over is given back.
bool Reader::hand_over_claims(Rows read) {
  // Whoever claimed such a row before may have died of it; until it has been
  // answered for, it is isolated at every claim.
  const auto isolated = [](const Row& row) { return row.reclaimed || row.crashes > 0; };
  const bool candidates = std::any_of(read.rows.begin(), read.rows.end(), isolated);
  std::vector<RowRef> refused;
  for (Row& row : read.rows) {
    const RowRef ref = row.ref;
    if (isolated(row)) {
      claimed_candidates_.push_back(std::move(row));
    } else if (candidates || !refused.empty() || !hand(std::move(row))) {
      refused.push_back(ref);
    }
  }
  try {
    if (!refused.empty()) instance_->unclaim(refused);
  } catch (...) {
    for (const RowRef& row : refused) leave_behind(row);
    throw;
  }
  if (!candidates) return read.more || !refused.empty();
  candidate(claimed_candidates_.size());
  return handler_.active() == 0;
}

// Delivers the first group and gives the others back: their count, if they have
// one, is in the store.
bool Reader::try_claimed_candidates() {
  std::vector<Row> rows = std::exchange(claimed_candidates_, {});
  const std::size_t size = group_size(rows.front().crashes);
  std::vector<Row> group;
  std::vector<RowRef> others;
  for (Row& row : rows) {
    const bool joins = group.empty() || (group.size() < size && group_size(row.crashes) == size);
    if (joins) {
      group.push_back(checked_for_poison(std::move(row)));
    } else {
      others.push_back(row.ref);
    }
  }
  for (const RowRef& row : others) leave_behind(row);
  const Bracket bracket(handler_, epoch_);
  handler_.deliver_isolated(std::move(group));
  return handler_.active() == 0;
}

// --- Poison candidates ---

// An event that has killed the process too often is not tried again.
Row Reader::checked_for_poison(Row row) const {
  const int limit = kDeathsInCompany + options_.max_solo_crashes;
  if (row.crashes >= limit && row.defect.empty()) {
    row.defect = "the process died " + std::to_string(row.crashes) +
                 " times while it was being delivered, the last " +
                 std::to_string(options_.max_solo_crashes) + " times alone";
  }
  return row;
}

// True once there are no candidates left. While a group is under way nothing else
// is: if the process dies again, one of the group did it.
bool Reader::read_candidates() {
  if (handler_.active() > 0) return false;
  if (candidates_left_ == 0) {
    end_suspicion();
    return true;
  }
  const std::size_t limit = std::min(group_size(0), handler_.room());
  if (limit == 0) return false;
  {
    const Bracket bracket(handler_, epoch_);
    Rows ready = of_this_epoch(
        instance_->ready(shards_, 0, limited(limit + handler_.in_flight(), handler_.room_bytes())));
    instance_->rewind(0);
    if (try_candidates(std::move(ready.rows))) return false;
    if (!ready.more) read_everything();
  }
  {
    const Bracket bracket(handler_, epoch_);
    DueRows due = of_this_epoch(
        instance_->due(shards_, limited(limit + handler_.in_flight(), handler_.room_bytes())));
    if (try_candidates(std::move(due.rows))) return false;
  }
  if (PollHandler::LaneRead lane = next_lane(); lane.key != kNoLane) {
    // Only the head of a lane can have been under way.
    const bool first_time = probed_.insert(lane.key).second;
    if (first_time) lane.limit = 1;
    candidates_left_ -= first_time ? 1 : 0;
    read_lane(lane, first_time);
    return false;
  }
  end_suspicion();
  return true;
}

void Reader::candidate(std::size_t n) {
  candidates_left_ += n;
  if (n == 0) return;
  recovering_ = true;
  handler_.isolate(true);
}

void Reader::end_suspicion() {
  candidates_left_ = 0;
  claimed_candidates_.clear();
  probed_.clear();
  recovering_ = false;
  handler_.isolate(false);
}

// Starts the first group of these; false if there is none. One that is in flight, because its
// call hangs, is no group: it has been tried.
bool Reader::try_candidates(std::vector<Row> rows) {
  for (auto row = rows.begin(); row != rows.end();) {
    const std::size_t size = std::min(group_size(row->crashes), candidates_left_);
    const int crashes = row->crashes;
    std::vector<Row> group;
    while (row != rows.end() && group.size() < size &&
           group_size(row->crashes) == group_size(crashes)) {
      group.push_back(checked_for_poison(std::move(*row++)));
    }
    const std::size_t tried = group.size();
    const std::size_t known = handler_.deliver_isolated(std::move(group));
    candidates_left_ -= tried - known;
    if (known < tried) return true;
  }
  return false;
}

}  // namespace outbox::internal
