#include "model/shards.h"

#include <algorithm>
#include <utility>

#include "outbox/error.h"

namespace outbox {

void OwnedShards::set(const Lease& lease) {
  std::vector<int> owned = lease.shards;
  owned.insert(owned.end(), lease.draining.begin(), lease.draining.end());
  for (const int shard : owned) {
    if (!contains(shard)) generations_.gained(shard);
  }
  shards_ = std::move(owned);
}

void OwnedShards::check(int shard) const {
  if (contains(shard)) return;
  throw MisuseError("shard " + std::to_string(shard) + " is not draining: it is not owned");
}

bool OwnedShards::contains(int shard) const {
  return std::find(shards_.begin(), shards_.end(), shard) != shards_.end();
}

void Floor::rewind(Seq seq) {
  const Seq floor = std::max<Seq>(seq - 1, 0);
  for (Seq& each : floors_) each = std::min(each, floor);
}

void Floor::observe(Seq last_given_out, const std::vector<Writer>& writers) {
  const bool any_prepared =
      std::any_of(writers.begin(), writers.end(), [](const Writer& w) { return w.prepared; });
  if (any_prepared) return;
  if (candidate_ > settled_) {
    std::erase_if(awaited_, [&](const std::string& transaction) {
      return std::none_of(writers.begin(), writers.end(),
                          [&](const Writer& w) { return w.transaction == transaction; });
    });
  }
  if (candidate_ <= settled_ || writers.empty()) {
    candidate_ = last_given_out;
    awaited_.clear();
    for (const Writer& writer : writers) awaited_.push_back(writer.transaction);
  }
  if (awaited_.empty()) settled_ = std::max(settled_, candidate_);
}

void Floor::read(int shard, std::optional<Seq> through) {
  const Seq safe = through ? std::min(*through, settled_) : settled_;
  floors_[index(shard)] = std::max(floors_[index(shard)], safe);
}

}  // namespace outbox
