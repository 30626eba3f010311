// says: `deliver_at` takes a time of std::chrono::system_clock
#include "outbox/event.h"

outbox::Draft draft() {
  return {.type = "OrderPlaced", .deliver_at = std::chrono::steady_clock::now()};
}
