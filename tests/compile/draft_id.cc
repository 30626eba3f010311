// says: `id` takes text, an integer, or an enum that has an outbox_name()
#include "outbox/event.h"

outbox::Draft draft() { return {.type = "OrderPlaced", .id = nullptr}; }
