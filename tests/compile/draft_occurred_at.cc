// says: `occurred_at` takes a time of std::chrono::system_clock
#include "outbox/event.h"

outbox::Draft draft() { return {.type = "OrderPlaced", .occurred_at = "today"}; }
