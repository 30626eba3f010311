#include "engine/gate.h"

#include <utility>

namespace outbox {
namespace {

constexpr std::size_t kSpareIds = 1'000;

}  // namespace

bool Gate::try_acquire(std::string_view event_id) {
  MutexLock lock(mutex_);
  if (ids_.find(event_id) != ids_.end()) return false;
  add(event_id);
  return true;
}

bool Gate::reserve(std::string_view event_id) {
  MutexLock lock(mutex_);
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

void Gate::add(std::string_view event_id) {
  if (spare_.empty()) {
    ids_.emplace(event_id, false);
    return;
  }
  Ids::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key().assign(event_id);
  node.mapped() = false;
  ids_.insert(std::move(node));
}

void Gate::forget(Ids::const_iterator id) {
  Ids::node_type node = ids_.extract(id);
  if (spare_.size() < kSpareIds) spare_.push_back(std::move(node));
}

void Gate::release(std::string_view event_id) {
  MutexLock lock(mutex_);
  const auto found = ids_.find(event_id);
  if (found == ids_.end() || found->second) return;
  if (!reading_) {
    forget(found);
    return;
  }
  found->second = true;
  release_pending_.push_back(&found->first);
}

void Gate::read_begins() {
  MutexLock lock(mutex_);
  reading_ = true;
}

void Gate::read_ends() {
  MutexLock lock(mutex_);
  reading_ = false;
  for (const std::string* id : release_pending_) forget(ids_.find(*id));
  release_pending_.clear();
}

bool Gate::contains(std::string_view event_id) const {
  MutexLock lock(mutex_);
  return ids_.find(event_id) != ids_.end();
}

std::size_t Gate::all() const {
  MutexLock lock(mutex_);
  return ids_.size();
}

std::size_t Gate::size() const {
  MutexLock lock(mutex_);
  return ids_.size() - release_pending_.size();
}

}  // namespace outbox
