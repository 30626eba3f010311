// What every store asks of those who join it.
#pragma once

#include "outbox/spi/store.h"

namespace outbox {

// Throws MisuseError for a lease or a lock that would be over before it began;
// cuts those that would never be over.
InstanceOptions checked(InstanceOptions options);

}  // namespace outbox
