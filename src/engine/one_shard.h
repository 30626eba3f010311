// Mode::ordered on stores with many shards.
#pragma once

#include <memory>

#include "outbox/spi/store.h"

namespace outbox::internal {

// The instance, which was joined with exclusive and total_order, as one of a store with a single
// shard, number 0: so all that holds of one shard (its lanes, its draining, what is read when)
// holds of all of them together.
//
//   - The lease has that shard while it has all the store's, and nothing while one is missing.
//   - Rows come in one order of seq. Their addresses say 0, and keep the true shard for updates.
//   - The lane of all events is read in all shards, under a key for each; see only_lane().
//
// Thread-safe as the instance is.
std::shared_ptr<Instance> as_one_shard(std::shared_ptr<Instance> instance, int shards);

}  // namespace outbox::internal
