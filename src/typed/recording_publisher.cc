#include "outbox/typed/recording_publisher.h"

#include <utility>

#include "base/quote.h"
#include "outbox/error.h"

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
  ids_.clear();
}

std::vector<std::string> RecordingPublisher::send(Transaction* /*tx*/, std::vector<Draft> drafts) {
  std::vector<Event> events;
  events.reserve(drafts.size());
  for (const Draft& draft : drafts) events.push_back(make_event(draft));
  std::vector<std::string> ids;
  ids.reserve(events.size());
  for (const Event& event : events) ids.push_back(event.id());
  const std::lock_guard lock(mutex_);
  std::set<std::string> known = ids_;
  for (const std::string& id : ids) {
    if (known.insert(id).second) continue;
    throw MisuseError("an event with the id " + quote(id) +
                      " was published already: leave the id out, or make it unique");
  }
  ids_ = std::move(known);
  drafts_.insert(drafts_.end(), drafts.begin(), drafts.end());
  events_.insert(events_.end(), events.begin(), events.end());
  return ids;
}

}  // namespace outbox::testing
