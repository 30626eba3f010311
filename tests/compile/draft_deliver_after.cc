// says: `deliver_after` takes a span of time, such as 5min or 200ms
#include "outbox/event.h"

outbox::Draft draft() { return {.type = "OrderPlaced", .deliver_after = 5}; }
