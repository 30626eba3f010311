// says: `type` takes text, or an enum that has an outbox_name()
#include "outbox/event.h"

outbox::Draft draft() { return {.type = 42}; }
