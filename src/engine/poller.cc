#include "engine/poller.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "outbox/error.h"

namespace outbox::internal {
namespace {

using std::chrono::milliseconds;

constexpr Seq kEverything = std::numeric_limits<Seq>::max();
constexpr Seq kNothing = -1;
constexpr std::size_t kLanesAtOnce = 1'000;

// While lanes are blocked: how long it takes at most to notice that one was freed.
constexpr std::chrono::milliseconds kLookForUnblocked{500};

// With row claims: how many due times are remembered. Rows due after these
// are found by a sweep.
constexpr std::size_t kDueTimes = 10'000;

// The database is unreachable: it is asked again soon, but not in a loop.
constexpr milliseconds kAfterFailedRead{250};

// An intake does not say when it has room again.
constexpr milliseconds kWithoutRoom{5};

// Spread by a tenth either way, so that instances that started together do not
// ask together for ever.
milliseconds with_jitter(milliseconds interval) {
  thread_local std::mt19937 generator{random_seed()};
  const double factor = std::uniform_real_distribution<double>{0.9, 1.1}(generator);
  return milliseconds{
      static_cast<milliseconds::rep>(static_cast<double>(interval.count()) * factor)};
}

// Brackets a read and the handling of its rows, also when either throws.
class Bracket {
 public:
  Bracket(Intake& intake, std::int64_t epoch) : intake_(intake) { intake_.read_begins(epoch); }
  ~Bracket() { intake_.read_ends(); }
  Bracket(const Bracket&) = delete;
  Bracket& operator=(const Bracket&) = delete;

 private:
  Intake& intake_;
};

}  // namespace

// --- When ---

Poller::Poller(std::shared_ptr<Instance> instance, Intake& intake, PollerOptions options)
    : instance_(std::move(instance)),
      intake_(intake),
      options_(std::move(options)),
      clock_(*options_.clock),
      reader_(instance_, intake_, options_),
      keeper_(instance_, *this, clock_, options_.log) {}

void Poller::on_lease(const Lease& lease, Clock::Steady valid_until) {
  const bool owner = lease.epoch != 0;
  if (owner != owner_) {
    if (owner) {
      options_.log({LogLevel::info,
                    "lease_acquired",
                    "lease acquired (epoch " + std::to_string(lease.epoch) +
                        "): this instance delivers events",
                    {{"epoch", lease.epoch}}});
    } else {
      options_.log({LogLevel::info, "lease_lost", "lease lost: this instance delivers no events"});
    }
  }
  intake_.on_lease(lease, valid_until);
  if (owner && !owner_) owner_since_ = clock_.steady();
  owner_ = owner;  // not before events are taken from commits
  if (reader_.set_lease(lease)) request_read();
  for (const int shard : lease.draining) {
    // In this order: what the reader has found is in flight before it stops.
    if (!reader_.reads(shard) && intake_.drained(shard)) instance_->release(shard);
  }
}

bool Poller::read() {
  try {
    const MutexLock lock(round_);
    const Clock::Steady began = clock_.steady();
    read_began_ = began;
    const bool more = reader_.round();
    read_began_ = Clock::Steady::max();
    reading_.over();
    // It may have found what is due before the keeper would look again. What
    // was due when it began and is still there waits for something else; what
    // became due since then was perhaps passed by.
    for (const auto& due : {reader_.next_due(), intake_.next_lane_due()}) {
      if (due && *due > began && *due < scheduled_.load()) keeper_.wake();
    }
    return more;
  } catch (const std::exception& error) {
    const Clock::Steady now = clock_.steady();
    read_began_ = Clock::Steady::max();
    reading_.failed(error.what(), now);
    if (warnings_.allow(now)) {
      options_.log({LogLevel::error,
                    "read_failed",
                    std::string("cannot read events, will try again: ") + error.what(),
                    {{"error", error.what()}}});
    }
    retry_at_ = now + kAfterFailedRead;
    keeper_.wake();
    return false;
  }
}

bool Poller::read_now() {
  if (!owner_) keeper_.renew();
  const MutexLock lock(round_);
  // After a round that left something behind the next one reads on: from the
  // start it would only meet what is in flight, again and again.
  if (!std::exchange(more_, false)) reader_.look_everywhere();
  more_ = reader_.round();
  return more_;
}

// False: the keeper's thread has to do it.
bool Poller::request_read() {
  if (intake_.request_poll()) return true;
  wanted_ = true;
  return false;
}

void Poller::wake() {
  if (!request_read()) keeper_.wake();
}

void Poller::committed() {
  // No rewind: rows never returned before come from ready() in any case, and
  // to read all that is in flight again after every commit would be slow.
  reader_.look_at_due();
  // After a read that failed, the next one finds it.
  if (retry_at_.load() == Clock::Steady::max()) wake();
}

void Poller::look_everywhere() {
  reader_.look_everywhere();
  wake();
}

void Poller::rows_due(std::span<const Clock::Steady> due) {
  for (const Clock::Steady time : due) reader_.note_due(time);
  keeper_.wake();
}

// What the reader would find now could not be updated, and would be found again and again.
void Poller::fenced(std::int64_t epoch) {
  reader_.fence(epoch);
  keeper_.wake();
}

void Poller::emptied() {
  if (reader_.recovering()) wake();
}

// Why there is nothing to be hoped for from this lease.
std::string Poller::stalled() {
  if (!owner_) return {};
  if (std::string why = intake_.stalled(); !why.empty()) return why;
  const Clock::Steady now = clock_.steady();
  const Clock::Steady began = read_began_;
  if (began < now - options_.stalled_after) {
    return "a read of the store has not returned for " + seconds_text(now - began);
  }
  const auto failing = reading_.report();
  if (failing && std::max(failing->since, owner_since_.load()) < now - options_.stalled_after) {
    return "events could not be read for " + seconds_text(now - failing->since) + ": " +
           failing->what;
  }
  return {};
}

std::optional<Clock::Steady> Poller::tick() {
  // Until it is known, a reader that finds something due wakes the keeper again.
  scheduled_ = Clock::Steady::max();
  const std::optional<Clock::Steady> next = do_what_is_due();
  scheduled_ = next.value_or(Clock::Steady::max());
  return next;
}

std::optional<Clock::Steady> Poller::do_what_is_due() {
  const Clock::Steady now = clock_.steady();
  std::optional<Clock::Steady> next = intake_.tick();
  const auto by = [&next](Clock::Steady time) { next = std::min(next.value_or(time), time); };

  if (now >= next_sweep_) {
    next_sweep_ = now + with_jitter(options_.interval);
    reader_.look_everywhere();
    request_read();
  }
  by(next_sweep_);
  // After a read that failed, what is due waits for the next attempt.
  const Clock::Steady retry_at = retry_at_;
  if (retry_at <= now) {
    retry_at_ = Clock::Steady::max();
    request_read();
  } else if (retry_at < Clock::Steady::max()) {
    by(retry_at);
  } else {
    for (const auto& due : {reader_.next_due(), intake_.next_lane_due()}) {
      if (!due) continue;
      if (*due > now) {
        by(*due);
      } else {
        request_read();
      }
    }
  }

  if (wanted_.exchange(false)) {
    if (read()) {
      wanted_ = true;
      const bool room = intake_.room() > 0 && !reader_.refused();
      by(room ? now : now + kWithoutRoom);
    }
  }
  return next;
}

// --- What: orders ---

Reader::Reader(std::shared_ptr<Instance> instance, Intake& intake, const PollerOptions& options)
    : instance_(std::move(instance)),
      intake_(intake),
      options_(options),
      clock_(options.clock != nullptr ? *options.clock : host_clock()),
      recovery_(intake, options.max_solo_crashes) {}

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
  const bool any_blocked = intake_.any_blocked();
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
  hear_of_left_behind();
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
    orders.unblocked = orders.unblocked && intake_.any_blocked();
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
    if (orders.everything) intake_.recheck_blocked();
    if (recovery_.under_way() && !read_candidates()) {
      // Due rows wait for the end of the candidates, which wakes the reader; a due time in the
      // past would make it look again and again until then.
      if (orders.due) look_at_due();
      // Where nothing is under way, nobody will come back and say so.
      return intake_.active() == 0;
    }
    more = read_ready() || more;
    if (orders.due) more = read_due() || more;
    return read_lanes() || more;
  } catch (...) {
    give_back(std::move(orders));
    throw;
  }
}

// Orders not carried out are for the next round.
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
    recovery_.end();
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
    recovery_.add(inherited.candidates);
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
    for (const HeldLane& lane : lanes) intake_.restore(lane);
    if (lanes.size() < kLanesAtOnce) return;
    after = lanes.back().key;
  }
}

ReadLimit Reader::limited(std::size_t rows, std::size_t bytes) const {
  return {rows, bytes, [this](std::string_view event_id) { return intake_.has(event_id); }};
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
      "this instance has registered again since its lease began; the rows that it has just read "
      "belong to the next lease");
}

bool Reader::read_ready() {
  const std::size_t limit = std::min(options_.batch, intake_.room());
  if (limit == 0) return true;
  const Bracket bracket(intake_, epoch_);
  Rows read = of_this_epoch(
      instance_->ready(shards_, intake_.in_flight(), limited(limit, intake_.room_bytes())));
  const Handed handed = hand_over(read.rows);
  if (handed == Handed::all && !read.more) read_everything();
  if (handed == Handed::not_recent) return false;  // their time has been noted
  return read.more || handed == Handed::some;
}

void Reader::read_everything() {
  for (const int shard : shards_) read_through_[static_cast<std::size_t>(shard)] = kEverything;
}

// Rows not handed over are read again.
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
  if (row.crashes > 0) row = recovery_.checked_for_poison(std::move(row));
  const bool taken = intake_.handle(std::move(row));
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
  const std::size_t limit = std::min(options_.batch, intake_.room());
  if (limit == 0) {
    note_due(clock_.steady());
    return true;
  }
  const Bracket bracket(intake_, epoch_);
  DueRows read = of_this_epoch(
      instance_->due(shards_, limited(limit + intake_.in_flight(), intake_.room_bytes())));
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
  intake_.unblocked(lanes);
  if (lanes.size() < kLanesAtOnce) return false;
  MutexLock lock(mutex_);
  look_for_unblocked_at_ = clock_.steady();
  return true;
}

void Reader::hear_of_left_behind() {
  for (const RowRef& row : intake_.take_left_behind()) leave_behind(row);
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
LaneRead Reader::next_lane() {
  LaneRead lane = intake_.next_lane(read_through_);
  if (lane.key == kNoLane) return lane;
  hear_of_left_behind();
  meet_left_behind();
  lane.read_through =
      std::min(lane.read_through, read_through_[static_cast<std::size_t>(lane.shard)]);
  return lane;
}

bool Reader::read_lanes() {
  for (std::size_t n = 0; n < options_.batch; ++n) {
    const LaneRead lane = next_lane();
    if (lane.key == kNoLane) return false;
    read_lane(lane, false);
  }
  return true;
}

void Reader::read_lane(const LaneRead& lane, bool candidate) {
  const Bracket bracket(intake_, epoch_);
  Rows rows;
  try {
    rows = of_this_epoch(instance_->held({lane.shard, lane.key}, limited(lane.limit, lane.bytes)));
  } catch (...) {
    // The intake has struck it off its list: it is still wanted.
    intake_.load_lane(lane, {.more = true}, false);
    throw;
  }
  for (Row& row : rows.rows) {
    if (row.crashes > 0) row = recovery_.checked_for_poison(std::move(row));
  }
  intake_.load_lane(lane, std::move(rows), candidate);
}

bool Reader::read_claims() {
  if (recovery_.under_way()) {
    if (intake_.active() > 0) return false;
    if (recovery_.any_claimed()) return try_claimed_candidates();
    recovery_.end();
  }
  const std::size_t limit = std::min(options_.batch, intake_.room());
  if (limit == 0) return true;
  const Bracket bracket(intake_, epoch_);
  return hand_over_claims(
      of_this_epoch(instance_->claim(options_.skip_recent, limited(limit, intake_.room_bytes()))));
}

// Rows not handed over are given back.
bool Reader::hand_over_claims(Rows read) {
  const bool any = std::any_of(read.rows.begin(), read.rows.end(), Recovery::is_candidate);
  std::vector<Row> candidates;
  std::vector<RowRef> refused;
  for (Row& row : read.rows) {
    const RowRef ref = row.ref;
    if (Recovery::is_candidate(row)) {
      candidates.push_back(std::move(row));
    } else if (any || !refused.empty() || !hand(std::move(row))) {
      refused.push_back(ref);
    }
  }
  // Whatever becomes of the others, these are claimed, and to be tried.
  recovery_.add_claimed(std::move(candidates));
  try {
    if (!refused.empty()) instance_->unclaim(refused);
  } catch (...) {
    for (const RowRef& row : refused) leave_behind(row);
    throw;
  }
  if (!any) return read.more || !refused.empty();
  return intake_.active() == 0;
}

bool Reader::try_claimed_candidates() {
  Recovery::Group group = recovery_.take_claimed();
  for (const RowRef& row : group.others) leave_behind(row);
  const Bracket bracket(intake_, epoch_);
  intake_.deliver_isolated(std::move(group.rows));
  return intake_.active() == 0;
}

// --- Poison candidates ---

// True once there are no candidates left.
bool Reader::read_candidates() {
  if (intake_.active() > 0) return false;
  if (recovery_.left() == 0) {
    recovery_.end();
    return true;
  }
  const std::size_t limit = std::min(Recovery::group_size(0), intake_.room());
  if (limit == 0) return false;
  {
    const Bracket bracket(intake_, epoch_);
    Rows ready = of_this_epoch(
        instance_->ready(shards_, 0, limited(limit + intake_.in_flight(), intake_.room_bytes())));
    instance_->rewind(0);
    if (recovery_.try_group(std::move(ready.rows))) return false;
    if (!ready.more) read_everything();
  }
  {
    const Bracket bracket(intake_, epoch_);
    DueRows due = of_this_epoch(
        instance_->due(shards_, limited(limit + intake_.in_flight(), intake_.room_bytes())));
    if (recovery_.try_group(std::move(due.rows))) return false;
  }
  if (LaneRead lane = next_lane(); lane.key != kNoLane) {
    const bool first_time = recovery_.probe(lane.key);
    if (first_time) lane.limit = 1;
    read_lane(lane, first_time);
    return false;
  }
  recovery_.end();
  return true;
}

}  // namespace outbox::internal
