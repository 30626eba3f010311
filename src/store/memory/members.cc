#include "store/memory/members.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/bounded.h"
#include "base/process.h"

namespace outbox::memory {

Lease Members::renew(MemberId id, const InstanceOptions& options, Time now) {
  Member& me = live_[id];
  if (me.epoch == 0) {
    me.epoch = new_epoch();
    me.name = options.name;
    me.registered_at = now;
  }
  me.beat = now;
  me.capacity = options.capacity;
  me.lease = internal::bounded(options.lease);
  me.exclusive = options.exclusive;
  evict_expired(now);

  Lease lease;
  const std::size_t share = quota(me);

  // What is being drained already is the first to go; it comes back into use
  // only if the share has grown.
  std::size_t kept = 0;
  for (const bool was_draining : {false, true}) {
    for (Shard& shard : shards_) {
      if (shard.owner != id || shard.draining != was_draining) continue;
      shard.draining = kept >= share;
      if (!shard.draining) ++kept;
    }
  }

  for (std::size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    if (shard.owner == 0 && kept < share) {
      ++kept;
      if (shard.candidates) lease.inherited.push_back({static_cast<int>(i), *shard.candidates});
      shard = {.owner = id};
    }
    if (shard.owner == id) {
      (shard.draining ? lease.draining : lease.shards).push_back(static_cast<int>(i));
    }
  }

  const bool stands_by = lease.shards.empty() && lease.draining.empty();
  lease.epoch = stands_by ? 0 : me.epoch;
  return lease;
}

void Members::release(MemberId id, int shard) {
  if (owns(id, shard)) shards_[static_cast<std::size_t>(shard)] = {};
}

void Members::leave(MemberId id) {
  if (live_.erase(id) == 0) return;
  for (Shard& shard : shards_) {
    if (shard.owner == id) shard = {};
  }
}

std::vector<outbox::Member> Members::list(Time now) const {
  std::vector<outbox::Member> result;
  for (const auto& [id, member] : live_) {
    std::vector<int> owned;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].owner == id) owned.push_back(static_cast<int>(i));
    }
    result.push_back({.name = member.name,
                      .host = host_name(),
                      .pid = getpid(),
                      .registered_at = member.registered_at,
                      .alive = !member.expired(now),
                      .epoch = member.epoch,
                      .shards = std::move(owned)});
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.epoch < b.epoch; });
  return result;
}

void Members::evict_expired(Time now) {
  std::erase_if(live_, [&](const auto& entry) {
    const auto& [id, member] = entry;
    if (!member.expired(now)) return false;
    for (Shard& shard : shards_) {
      if (shard.owner == id) shard = {.candidates = member.capacity};
    }
    return true;
  });
}

// As even as whole shards allow; the oldest get one more. But the oldest that
// wants everything gets everything.
std::size_t Members::quota(const Member& member) const {
  std::size_t rank = 0;
  const Member* sole = nullptr;
  for (const auto& [id, other] : live_) {
    if (other.epoch < member.epoch) ++rank;
    if (other.exclusive && (sole == nullptr || other.epoch < sole->epoch)) sole = &other;
  }
  if (sole != nullptr) return sole == &member ? shards_.size() : 0;
  const std::size_t members = live_.size();
  return shards_.size() / members + (rank < shards_.size() % members ? 1 : 0);
}

}  // namespace outbox::memory
