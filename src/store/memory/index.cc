#include "store/memory/index.h"

namespace outbox::memory {

void Index::put(StoredRow& row) {
  if (!row.hold) return;
  Shard& shard = shards_[static_cast<std::size_t>(row.shard)];
  if (*row.hold > 0) {
    shard.lanes[*row.hold].emplace(row.seq, &row);
    return;
  }
  const bool claimed = !row.locked_by.empty();
  Queue& queue = claimed ? shard.claimed : shard.free;
  if (*row.hold == 0) {
    queue.ready.emplace_hint(queue.ready.end(), row.seq, &row);
  } else {
    queue.due.emplace(DueKey{-*row.hold, row.seq}, &row);
  }
  if (claimed) locks_.emplace(LockKey{row.locked_at, row.seq}, &row);
}

void Index::take(StoredRow& row) {
  if (!row.hold) return;
  Shard& shard = shards_[static_cast<std::size_t>(row.shard)];
  if (*row.hold > 0) {
    const auto lane = shard.lanes.find(*row.hold);
    lane->second.erase(row.seq);
    if (lane->second.empty()) shard.lanes.erase(lane);
    return;
  }
  const bool claimed = !row.locked_by.empty();
  Queue& queue = claimed ? shard.claimed : shard.free;
  if (*row.hold == 0) {
    queue.ready.erase(row.seq);
  } else {
    queue.due.erase(DueKey{-*row.hold, row.seq});
  }
  if (claimed) locks_.erase(LockKey{row.locked_at, row.seq});
}

}  // namespace outbox::memory
