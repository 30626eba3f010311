// What every store asks of those who join it.
#pragma once

#include "outbox/spi/store.h"

namespace outbox {

// Throws MisuseError for a lease or a lock that would be over before it began;
// cuts those that would never be over.
InstanceOptions checked(InstanceOptions options);

// Throws MisuseError for an instance that owns shards: claim() is not for it.
void require_row_claims(bool row_claims);

}  // namespace outbox
