#include "outbox/recording_publisher.h"

#include <utility>

namespace outbox::testing {

std::vector<Event> RecordingPublisher::all() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::vector<Draft> RecordingPublisher::drafts() const {
  const std::lock_guard lock(mutex_);
  return drafts_;
}

std::size_t RecordingPublisher::count() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

void RecordingPublisher::clear() {
  const std::lock_guard lock(mutex_);
  drafts_.clear();
  events_.clear();
}

std::vector<std::string> RecordingPublisher::send(Transaction* /*tx*/, std::vector<Draft> drafts) {
  std::vector<Event> events;
  events.reserve(drafts.size());
  for (const Draft& draft : drafts) events.push_back(make_event(draft));
  std::vector<std::string> ids;
  ids.reserve(events.size());
  for (const Event& event : events) ids.push_back(event.id());
  const std::lock_guard lock(mutex_);
  drafts_.insert(drafts_.end(), drafts.begin(), drafts.end());
  events_.insert(events_.end(), events.begin(), events.end());
  return ids;
}

}  // namespace outbox::testing
