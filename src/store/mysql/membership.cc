#include "store/mysql/membership.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "store/common/shards.h"

namespace outbox::mysql {

std::size_t share_of(std::int64_t epoch, const std::vector<Peer>& peers) {
  if (peers.empty() || peers.front().claims) return 0;
  std::vector<const Peer*> owners;
  for (const Peer& peer : peers) {
    if (!peer.claims) owners.push_back(&peer);
  }
  const auto wants_all = [](const Peer* peer) { return peer->exclusive; };
  const auto sole = std::find_if(owners.begin(), owners.end(), wants_all);
  if (sole != owners.end()) return (*sole)->epoch == epoch ? kShards : 0;
  const auto me = std::find_if(owners.begin(), owners.end(),
                               [&](const Peer* peer) { return peer->epoch == epoch; });
  if (me == owners.end()) return 0;
  const auto rank = static_cast<std::size_t>(me - owners.begin());
  return kShards / owners.size() + (rank < kShards % owners.size() ? 1 : 0);
}

Changes changes_for(std::int64_t epoch, std::size_t share, const std::vector<Shard>& shards) {
  // First what is owned, of that first what is not being drained; then what is free.
  std::vector<Shard> candidates;
  for (const Shard& shard : shards) {
    if (!shard.epoch || *shard.epoch == epoch) candidates.push_back(shard);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Shard& a, const Shard& b) {
    return std::tuple(!a.epoch, a.draining, a.number) < std::tuple(!b.epoch, b.draining, b.number);
  });
  Changes changes;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Shard& shard = candidates[i];
    const bool mine = i < share;
    if (!shard.epoch) {
      if (mine) changes.take.push_back(shard.number);
    } else if (mine == shard.draining) {
      (mine ? changes.stay : changes.leave).push_back(shard.number);
    }
  }
  return changes;
}

}  // namespace outbox::mysql
