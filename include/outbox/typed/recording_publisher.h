// A publisher for tests of code that publishes domain events.
//
//   outbox::testing::RecordingPublisher publisher;
//   shop.place_order(publisher, ...);
//   ASSERT_EQ(publisher.events<OrderPlaced>().size(), 1);
//   EXPECT_EQ(publisher.events<OrderPlaced>()[0].cents, 1999);
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/typed/domain_event.h"
#include "outbox/typed/publisher.h"

namespace outbox::testing {

// Records the published events, and refuses those that the outbox would refuse, including a
// duplicate id; needs neither a transaction nor a database. Thread-safe.
class OUTBOX_EXPORT RecordingPublisher final : public DomainEventPublisher {
 public:
  // Those of type T, in order, encoded and decoded as by an outbox.
  template <class T>
  std::vector<T> events() const {
    static_assert(typed::check_event_type<T>());
    const typed::EventNames& names = typed::event_names<T>();
    std::vector<T> found;
    for (const Event& event : all()) {
      const bool is_it =
          event.type() == names.type && event.aggregate_type() == names.aggregate_type;
      if (is_it) found.push_back(from_event<T>(event));
    }
    return found;
  }

  // As listeners would get them, with headers and ids.
  std::vector<Event> all() const;
  std::vector<Draft> drafts() const;
  std::size_t count() const;
  void clear();

 private:
  std::vector<std::string> send(Transaction* tx, std::vector<Draft> drafts) override;

  mutable std::mutex mutex_;
  std::vector<Draft> drafts_;
  std::vector<Event> events_;
  std::set<std::string> ids_;
};

}  // namespace outbox::testing
