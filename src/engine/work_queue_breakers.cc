// Listeners that get no calls for a while: unavailable ones, and paused ones.
#include <algorithm>
#include <utility>

#include "engine/work_queue.h"

namespace outbox::internal {

void WorkQueue::take_back(Job& job) {
  check_in(job);
  ++load(job).queued;
  Breaker* route = job.route;
  Lane* lane = current_lane(job);
  if (lane == nullptr) {
    parked_[route].push_front({.job = std::move(job)});
    return;
  }
  lane->push_first(std::move(job));
  // Another job of the batch has parked it already; or waits for its update, after which the lane
  // goes on with this one.
  if (!lane->idle()) return;
  lane->stand_in_line();
  parked_[route].push_front({.lane = lane});
}

void WorkQueue::unpark(Breaker* route) {
  const auto found = parked_.find(route);
  if (found == parked_.end()) return;
  // They stood in line before; start() parks again what is too many.
  for (auto ticket = found->second.rbegin(); ticket != found->second.rend(); ++ticket) {
    (ticket->first().hot ? hot_ : cold_).push_front(std::move(*ticket));
  }
  parked_.erase(found);
  waking_ = idle_;
  work_.notify_all();
}

std::optional<Clock::Steady> WorkQueue::tick(Clock::Steady now) {
  MutexLock lock(mutex_);
  std::optional<Clock::Steady> next;
  std::vector<Breaker*> open;
  for (const auto& [route, tickets] : parked_) {
    if (route->held()) continue;
    route->tick(now);
    const auto until = route->paused_until();
    if (!until) open.push_back(route);
    if (until && (!next || *until < *next)) next = until;
  }
  for (Breaker* route : open) unpark(route);
  return next;
}

// --- Operators ---

void WorkQueue::pause(bool on) {
  MutexLock lock(mutex_);
  paused_ = on;
  if (on) return;
  poll_requested_ = true;
  waking_ = idle_;
  work_.notify_all();
}

void WorkQueue::pause(Breaker& route, bool on, Clock::Steady now) {
  MutexLock lock(mutex_);
  if (on) {
    route.hold(now);
  } else {
    route.let_go();
    unpark(&route);
    if (route.paused_until()) parked_.try_emplace(&route);  // tick() ends that pause
  }
}

bool WorkQueue::paused() const {
  MutexLock lock(mutex_);
  return paused_;
}

std::chrono::nanoseconds WorkQueue::open_for(const Breaker& route, Clock::Steady now) const {
  MutexLock lock(mutex_);
  return route.open_for(now);
}

}  // namespace outbox::internal
