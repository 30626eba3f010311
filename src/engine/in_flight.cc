#include "engine/in_flight.h"

#include <algorithm>
#include <cassert>

namespace outbox::internal {
namespace {

constexpr std::size_t kSpareIds = 1'000;
constexpr std::size_t kSpareLanes = 1'000;

}  // namespace

// --- By event id ---

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

// --- By lane ---

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
    // What was postponed for the next owner was so in the last lease, or was not.
    if (hung.call != Call::released) hung.call = Call::hangs;
  }
}

// --- Calls that hang ---

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
