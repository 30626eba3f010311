#include "engine/lanes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace outbox::internal {
namespace {

constexpr std::size_t kSpareLanes = 1'000;

}  // namespace

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
  static_cast<LaneState&>(*lane) = {.key = key, .shard = shard};
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

std::vector<Lane*> Lanes::of_shard(int shard) {
  std::vector<Lane*> result;
  for (auto& [key, lane] : lanes_) {
    if (lane.shard == shard) result.push_back(&lane);
  }
  return result;
}

bool Lanes::settle(Lane& lane) {
  const bool idle = !lane.busy && !lane.frozen;
  const bool runs = idle && !lane.jobs.empty();
  const bool wants =
      idle && lane.jobs.empty() && lane.held && !lane.blocked && lane.holds_pending == 0;

  unlist(lane);
  if (wants) {
    readable_.emplace(lane.due, lane.key);
    lane.listed = lane.due;
  }
  if (idle && lane.jobs.empty() && !lane.held && lane.holds_pending == 0 && lane.read_back == 0) {
    take_from_blocked(lane);
    forget(lane.key);
    return false;
  }
  return runs;
}

void Lanes::restore(const HeldLane& held, Clock::Steady now) {
  Lane& lane = at(held.key, held.shard);
  lane.held = true;
  lane.due = now + held.available_in;
  lane.open_after = held.first;
  lane.failing = held.status != Status::pending;
  // Even one behind a DEAD head is looked at once: with `skip` in force now,
  // nothing is blocked any more.
  static_cast<void>(settle(lane));  // it has no jobs that could stand in line
}

Lane* Lanes::next_readable(std::span<const Seq> read_through, Clock::Steady now) {
  for (auto entry = readable_.begin(); entry != readable_.end() && entry->first <= now; ++entry) {
    Lane& lane = lanes_.at(entry->second);
    const auto shard = static_cast<std::size_t>(lane.shard);
    const bool open = shard < read_through.size() && read_through[shard] >= lane.open_after;
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
  if (lane.blocked) return;
  lane.blocked = true;
  lane.turn = ++last_turn_;
  blocked_.emplace(lane.turn, lane.key);
}

void Lanes::take_from_blocked(Lane& lane) {
  if (!lane.blocked) return;
  lane.blocked = false;
  blocked_.erase(lane.turn);
}

void Lanes::unblock(Lane* lane) {
  if (lane == nullptr || !lane->blocked) return;
  take_from_blocked(*lane);
  static_cast<void>(settle(*lane));  // if it has jobs, it stands in line already
}

void Lanes::recheck_blocked(std::size_t n) {
  for (std::size_t left = std::min(n, blocked_.size()); left > 0; --left) {
    Lane* lane = find(blocked_.begin()->second);
    lane->rechecked = true;
    unblock(lane);
  }
}

std::vector<Job> Lanes::clear() {
  std::vector<Job> jobs;
  for (auto& [key, lane] : lanes_) {
    jobs.insert(jobs.end(), std::move_iterator(lane.jobs.begin()),
                std::move_iterator(lane.jobs.end()));
  }
  lanes_.clear();
  readable_.clear();
  blocked_.clear();
  return jobs;
}

void Lanes::forget_shard(int shard) {
  for (auto entry = lanes_.begin(); entry != lanes_.end();) {
    if (entry->second.shard != shard) {
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
    if (lane.frozen || waiting.contains(key)) result += lane.jobs.size();
  }
  return result;
}

bool Lanes::at_rest() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    const Lane& lane = entry.second;
    return lane.jobs.empty() && !lane.busy && !lane.frozen && lane.holds_pending == 0 &&
           lane.read_back == 0;
  });
}

void Lanes::unlist(Lane& lane) {
  if (!lane.listed) return;
  readable_.erase({*lane.listed, lane.key});
  lane.listed.reset();
}

}  // namespace outbox::internal
