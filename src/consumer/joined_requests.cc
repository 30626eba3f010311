#include "consumer/joined_requests.h"

#include <algorithm>
#include <utility>

namespace outbox::internal {

void JoinedRequests::add(Transaction& tx, const CreationKey& key) {
  auto held = std::make_shared<Held>();
  MutexLock lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.held.expired(); });
  entries_.push_back({.thread = std::this_thread::get_id(),
                      .on = &tx.connection(),
                      .tenant_id = key.tenant_id,
                      .key = key.key,
                      .held = held});
  // What is rolled back forgets its callbacks, and with them this.
  tx.after_commit([held = std::move(held)] { held->ended = true; });
}

bool JoinedRequests::held_here(const CreationKey& key, const Connection* mine) const {
  MutexLock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (entry.thread != std::this_thread::get_id() || entry.on == mine) return false;
    if (entry.key != key.key || entry.tenant_id != key.tenant_id) return false;
    const std::shared_ptr<Held> held = entry.held.lock();
    return held && !held->ended;
  });
}

}  // namespace outbox::internal
