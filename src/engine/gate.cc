#include "engine/gate.h"

namespace outbox {

bool Gate::try_acquire(std::string_view event_id) {
  MutexLock lock(mutex_);
  if (ids_.find(event_id) != ids_.end()) return false;
  ids_.emplace(event_id, false);
  return true;
}

void Gate::release(std::string_view event_id) {
  MutexLock lock(mutex_);
  const auto found = ids_.find(event_id);
  if (found == ids_.end() || found->second) return;
  if (!reading_) {
    ids_.erase(found);
    return;
  }
  found->second = true;
  limbo_.push_back(found->first);
}

void Gate::read_begins() {
  MutexLock lock(mutex_);
  reading_ = true;
}

void Gate::read_ends() {
  MutexLock lock(mutex_);
  reading_ = false;
  for (const std::string& id : limbo_) ids_.erase(id);
  limbo_.clear();
}

std::size_t Gate::size() const {
  MutexLock lock(mutex_);
  return ids_.size() - limbo_.size();
}

}  // namespace outbox
