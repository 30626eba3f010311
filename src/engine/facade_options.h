// From the options of the facade to those of its parts.
#pragma once

#include "outbox/outbox.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/poller.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// Fills in defaults; throws MisuseError for what makes no sense together, or
// not on this store.
Options checked(Options options, const Listeners& listeners, const Store& store);

InstanceOptions instance_options(const Options& options);
DispatcherOptions dispatcher_options(const Options& options, const Clock& clock);
PollerOptions poller_options(const Options& options, const Clock& clock);

}  // namespace outbox::internal
