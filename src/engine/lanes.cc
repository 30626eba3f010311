#include "engine/lanes.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace outbox::internal {
namespace {

// How much memory of what has gone is kept for what comes.
constexpr std::size_t kSpareLanes = 1'000;
constexpr std::size_t kSpareIds = 1'000;

}  // namespace

// --- One lane ---

// Keeps the memory of its jobs, of which there are none.
void Lane::start(LaneKey key, int shard) {
  key_ = key;
  shard_ = shard;
  state_ = State::idle;
  tail_ = Tail::none;
  failing_ = false;
  in_doubt_ = false;
  rechecked_ = false;
  holds_pending_ = 0;
  read_back_ = 0;
  expected_.clear();
  due_ = {};
  open_after_ = 0;
  listed_.reset();
  turn_ = 0;
}

void Lane::stand_in_line() {
  assert(state_ == State::idle);
  state_ = State::queued;
}

void Lane::leave_line() {
  assert(state_ == State::queued);
  state_ = State::idle;
}

Job Lane::start_first() {
  assert(state_ == State::queued || state_ == State::running);
  state_ = State::running;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

// Of a batch, each of its events that is over says so.
void Lane::end_call() {
  if (state_ == State::running) state_ = State::idle;
  if (state_ == State::handing_over) state_ = State::awaiting_ack;
}

void Lane::await_ack() {
  assert(state_ != State::queued);
  state_ = state_ == State::running || state_ == State::handing_over ? State::handing_over
                                                                     : State::awaiting_ack;
}

void Lane::go_on() {
  if (state_ == State::awaiting_ack) state_ = State::idle;
  if (state_ == State::handing_over) state_ = State::running;
}

void Lane::acked(Clock::Steady due) {
  go_on();
  due_ = due;
}

void Lane::hold() {
  if (tail_ == Tail::none) tail_ = Tail::held;
}

void Lane::nothing_held() {
  assert(tail_ != Tail::blocked);
  tail_ = Tail::none;
}

// --- All lanes ---

Lane& Lanes::at(LaneKey key, int shard) {
  if (Lane* lane = find(key); lane != nullptr) return *lane;
  Lane* lane = nullptr;
  if (spare_.empty()) {
    lane = &lanes_[key];
  } else {
    spare_.back().key() = key;
    lane = &lanes_.insert(std::move(spare_.back())).position->second;
    spare_.pop_back();
  }
  lane->start(key, shard);
  return *lane;
}

void Lanes::forget(LaneKey key) {
  Map::node_type node = lanes_.extract(key);
  if (spare_.size() < kSpareLanes) spare_.push_back(std::move(node));
}

Lane* Lanes::find(LaneKey key) {
  const auto found = lanes_.find(key);
  return found == lanes_.end() ? nullptr : &found->second;
}

const Lane* Lanes::find(LaneKey key) const {
  const auto found = lanes_.find(key);
  return found == lanes_.end() ? nullptr : &found->second;
}

bool Lanes::any_other_of_shard(const Lane& lane) const {
  return lanes_.size() > 1 && std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
           return entry.second.shard_ == lane.shard_ && entry.first != lane.key_;
         });
}

std::vector<Lane*> Lanes::of_shard(int shard) {
  std::vector<Lane*> result;
  for (auto& [key, lane] : lanes_) {
    if (lane.shard_ == shard) result.push_back(&lane);
  }
  return result;
}

bool Lanes::update(Lane& lane) {
  const bool empty = lane.idle() && lane.jobs_.empty();
  const bool wants =
      empty && lane.tail_ == Lane::Tail::held && lane.holds_pending_ == 0 && lane.expected_.empty();

  unlist(lane);
  if (wants) {
    readable_.emplace(lane.due_, lane.key_);
    lane.listed_ = lane.due_;
  }
  if (empty && !lane.held() && lane.holds_pending_ == 0 && lane.read_back_ == 0 &&
      lane.expected_.empty()) {
    forget(lane.key_);
    return false;
  }
  return lane.idle() && !lane.jobs_.empty();
}

void Lanes::restore(const HeldLane& held, Clock::Steady now) {
  Lane& lane = at(held.key, held.shard);
  lane.hold();
  lane.due_ = now + held.available_in;
  lane.open_after_ = held.first;
  lane.failing_ = held.status != Status::pending;
  lane.in_doubt_ = held.status == Status::dead;
  // Even one behind a DEAD head is looked at once: with `skip` in force now,
  // nothing is blocked any more.
  static_cast<void>(update(lane));  // it has no jobs that could stand in line
}

Lane* Lanes::next_readable(std::span<const Seq> read_through, Clock::Steady now) {
  for (auto entry = readable_.begin(); entry != readable_.end() && entry->first <= now; ++entry) {
    Lane& lane = lanes_.at(entry->second);
    const auto shard = static_cast<std::size_t>(lane.shard_);
    const bool open = shard < read_through.size() && read_through[shard] >= lane.open_after_;
    if (!open || behind_others(lane)) continue;
    unlist(lane);
    return &lane;
  }
  return nullptr;
}

std::optional<Clock::Steady> Lanes::next_due() const {
  if (readable_.empty()) return std::nullopt;
  return readable_.begin()->first;
}

void Lanes::block(Lane& lane) {
  if (lane.blocked()) return;
  lane.tail_ = Lane::Tail::blocked;
  lane.turn_ = ++last_turn_;
  blocked_.emplace(lane.turn_, lane.key_);
}

void Lanes::take_from_blocked(Lane& lane) {
  if (!lane.blocked()) return;
  lane.tail_ = Lane::Tail::held;
  lane.in_doubt_ = true;
  blocked_.erase(lane.turn_);
}

void Lanes::unblock(Lane* lane) {
  if (lane == nullptr || !lane->blocked()) return;
  take_from_blocked(*lane);
  static_cast<void>(update(*lane));  // if it has jobs, it stands in line already
}

void Lanes::recheck_blocked(std::size_t n) {
  for (std::size_t left = std::min(n, blocked_.size()); left > 0; --left) {
    Lane* lane = find(blocked_.begin()->second);
    lane->rechecked_ = true;
    unblock(lane);
  }
}

std::vector<Job> Lanes::clear() {
  std::vector<Job> jobs;
  for (auto& [key, lane] : lanes_) {
    jobs.insert(jobs.end(), std::move_iterator(lane.jobs_.begin()),
                std::move_iterator(lane.jobs_.end()));
  }
  lanes_.clear();
  readable_.clear();
  blocked_.clear();
  return jobs;
}

void Lanes::forget_shard(int shard) {
  for (auto entry = lanes_.begin(); entry != lanes_.end();) {
    if (entry->second.shard_ != shard) {
      ++entry;
      continue;
    }
    unlist(entry->second);
    take_from_blocked(entry->second);
    entry = lanes_.erase(entry);
  }
}

std::size_t Lanes::jobs_that_wait(const std::set<LaneKey>& waiting) const {
  std::size_t result = 0;
  for (const auto& [key, lane] : lanes_) {
    if (lane.frozen() || waiting.contains(key)) result += lane.jobs_.size();
  }
  return result;
}

bool Lanes::at_rest() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    const Lane& lane = entry.second;
    return lane.jobs_.empty() && lane.idle() && lane.holds_pending_ == 0 && lane.read_back_ == 0 &&
           lane.expected_.empty();
  });
}

void Lanes::unlist(Lane& lane) {
  if (!lane.listed_) return;
  readable_.erase({*lane.listed_, lane.key_});
  lane.listed_.reset();
}

// --- In flight: by event id ---

void InFlight::add(std::string_view event_id) {
  if (!by_id_) return;
  assert(!contains(event_id));
  if (spare_ids_.empty()) {
    ids_.emplace(event_id, false);
    return;
  }
  Ids::node_type node = std::move(spare_ids_.back());
  spare_ids_.pop_back();
  node.key().assign(event_id);
  node.mapped() = false;
  ids_.insert(std::move(node));
}

void InFlight::forget(Ids::const_iterator id) {
  Ids::node_type node = ids_.extract(id);
  if (spare_ids_.size() < kSpareIds) spare_ids_.push_back(std::move(node));
}

void InFlight::remove(std::string_view event_id) {
  const auto found = ids_.find(event_id);
  if (found == ids_.end() || found->second) return;
  if (!reading_) {
    forget(found);
    return;
  }
  found->second = true;
  release_pending_.push_back(&found->first);
}

bool InFlight::reserve(std::string_view event_id) {
  const auto found = ids_.find(event_id);
  if (found == ids_.end()) {
    add(event_id);
    return true;
  }
  if (!found->second) return false;
  found->second = false;
  std::erase(release_pending_, &found->first);
  return true;
}

void InFlight::read_ends() {
  reading_ = false;
  for (const std::string* id : release_pending_) forget(ids_.find(*id));
  release_pending_.clear();
}

// --- In flight: by lane ---

void InFlight::check_out(LaneKey lane, int shard) {
  auto found = checked_out_.find(lane);
  if (found == checked_out_.end()) {
    if (spare_lanes_.empty()) {
      found = checked_out_.try_emplace(lane).first;
    } else {
      spare_lanes_.back().key() = lane;
      found = checked_out_.insert(std::move(spare_lanes_.back())).position;
      spare_lanes_.pop_back();
    }
    found->second = {.shard = shard};
  }
  ++found->second.events;
}

bool InFlight::check_in(LaneKey lane, bool of_this_lease) {
  // A lease may come back under the epoch that it had; what was in flight then is a reclaimed one.
  const auto found = of_this_lease ? checked_out_.find(lane) : checked_out_.end();
  if (found != checked_out_.end()) {
    if (--found->second.events > 0) return false;
    ByLane::node_type node = checked_out_.extract(found);
    if (spare_lanes_.size() < kSpareLanes) spare_lanes_.push_back(std::move(node));
    return false;
  }
  const auto reclaimed = reclaimed_.find(lane);
  if (--reclaimed->second.events > 0) return false;
  reclaimed_.erase(reclaimed);
  return true;
}

void InFlight::end_lease() {
  for (const auto& [lane, ended] : checked_out_) {
    OfLane& reclaimed = reclaimed_[lane];
    reclaimed.shard = ended.shard;
    reclaimed.events += ended.events;
  }
  checked_out_.clear();
  for (auto& [id, hung] : hung_) {
    hung.reclaimed = true;
    // Whether it was postponed for the next owner was decided in the last lease.
    if (hung.call != Call::released) hung.call = Call::hangs;
  }
}

// --- In flight: calls that hang ---

void InFlight::hangs(std::string_view event_id, LaneKey lane, int shard, bool of_this_lease) {
  hung_.try_emplace(std::string(event_id),
                    Hung{.lane = lane, .shard = shard, .reclaimed = !of_this_lease});
}

InFlight::Call InFlight::returned(std::string_view event_id) {
  const auto found = hung_.find(event_id);
  if (found == hung_.end()) return Call::returns;
  const Call call = found->second.call;
  hung_.erase(found);
  return call;
}

bool InFlight::begin_hand_over(std::string_view event_id) {
  const auto found = hung_.find(event_id);
  if (found == hung_.end() || found->second.call != Call::hangs) return false;
  found->second.call = Call::handing_over;
  return true;
}

void InFlight::end_hand_over(std::string_view event_id, bool acked) {
  const auto found = hung_.find(event_id);
  if (found == hung_.end() || found->second.call != Call::handing_over) return;
  found->second.call = acked ? Call::handed_over : Call::hangs;
}

bool InFlight::all_handed_over() const {
  return std::none_of(hung_.begin(), hung_.end(), [](const auto& entry) {
    return entry.second.call == Call::hangs || entry.second.call == Call::handing_over;
  });
}

std::size_t InFlight::handed_over_of(int shard) const {
  return static_cast<std::size_t>(std::count_if(hung_.begin(), hung_.end(), [&](const auto& entry) {
    return entry.second.shard == shard && entry.second.call == Call::handed_over;
  }));
}

void InFlight::release_handed_over(int shard) {
  for (auto& [id, hung] : hung_) {
    if (hung.shard != shard || hung.call != Call::handed_over) continue;
    hung.call = Call::released;
    if (hung.lane == kNoLane || std::exchange(hung.reclaimed, true)) continue;
    OfLane& reclaimed = reclaimed_[hung.lane];
    reclaimed.shard = shard;
    ++reclaimed.events;
    const auto ended = checked_out_.find(hung.lane);
    if (ended != checked_out_.end() && --ended->second.events == 0) checked_out_.erase(ended);
  }
}

std::set<LaneKey> InFlight::hung_lanes() const {
  std::set<LaneKey> lanes;
  for (const auto& [id, hung] : hung_) {
    if (hung.lane != kNoLane && !hung.reclaimed) lanes.insert(hung.lane);
  }
  return lanes;
}

}  // namespace outbox::internal
