// A publisher for the tests of those who publish domain events.
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

// Remembers what was published, and refuses what the outbox would refuse, an id that it has
// had already too; needs neither a transaction nor a database. Thread-safe.
class OUTBOX_EXPORT RecordingPublisher final : public DomainEventPublisher {
 public:
  // Those of T, in order, written and read again as on their way through an outbox.
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

  // As they would be listened to, with headers and ids.
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
