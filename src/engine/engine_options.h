// The options of the engine's parts: what they may be, and those of one from those of another.
#pragma once

#include <cstddef>
#include <optional>

#include "engine/work_queue.h"
#include "outbox/outbox.h"
#include "outbox/spi/dispatcher.h"
#include "outbox/spi/poller.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// Fill in defaults; throw MisuseError for invalid options, also those that are so together, or
// on this store.
Options checked(Options options, const Listeners& listeners, const Store& store);
DispatcherOptions checked(DispatcherOptions options);
PollerOptions checked(PollerOptions options);

InstanceOptions instance_options(const Options& options);
DispatcherOptions dispatcher_options(const Options& options, const Clock& clock);
PollerOptions poller_options(const Options& options, const Clock& clock);
WorkQueueOptions queue_options(const DispatcherOptions& options,
                               const std::optional<PollerOptions>& polling, std::size_t routes);

}  // namespace outbox::internal
