// says: `aggregate_type` takes text, or an enum that has an outbox_name()
#include "outbox/event.h"

enum class Aggregate { order };

outbox::Draft draft() { return {.type = "OrderPlaced", .aggregate_type = Aggregate::order}; }
