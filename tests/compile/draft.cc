// Drafts of events that are wrong on purpose; see tests/compile/try.
#include "outbox/event.h"

#ifdef CASE_draft_aggregate_id
// says: `aggregate_id` takes text, an integer, or an enum that has an outbox_name()
outbox::Draft draft() { return {.type = "OrderPlaced", .aggregate_id = true}; }
#endif

#ifdef CASE_draft_aggregate_type
// says: `aggregate_type` takes text, or an enum that has an outbox_name()
enum class Aggregate { order };

outbox::Draft draft() { return {.type = "OrderPlaced", .aggregate_type = Aggregate::order}; }
#endif

#ifdef CASE_draft_call
// says: `deliver_after` takes a span of time, such as 5min or 200ms
outbox::Draft draft() { return outbox::event("OrderPlaced").json("{}").deliver_after(5); }
#endif

#ifdef CASE_draft_deliver_after
// says: `deliver_after` takes a span of time, such as 5min or 200ms
outbox::Draft draft() { return {.type = "OrderPlaced", .deliver_after = 5}; }
#endif

#ifdef CASE_draft_deliver_at
// says: `deliver_at` takes a time of std::chrono::system_clock
outbox::Draft draft() {
  return {.type = "OrderPlaced", .deliver_at = std::chrono::steady_clock::now()};
}
#endif

#ifdef CASE_draft_id
// says: `id` takes text, an integer, or an enum that has an outbox_name()
outbox::Draft draft() { return {.type = "OrderPlaced", .id = nullptr}; }
#endif

#ifdef CASE_draft_occurred_at
// says: `occurred_at` takes a time of std::chrono::system_clock
outbox::Draft draft() { return {.type = "OrderPlaced", .occurred_at = "today"}; }
#endif

#ifdef CASE_draft_tenant_id
// says: `tenant_id` takes text, an integer, or an enum that has an outbox_name()
outbox::Draft draft() { return {.type = "OrderPlaced", .tenant_id = 4.2}; }
#endif

#ifdef CASE_draft_type
// says: `type` takes text, or an enum that has an outbox_name()
outbox::Draft draft() { return {.type = 42}; }
#endif
