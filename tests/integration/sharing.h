// Counts what many instances on one server deliver of many events.
#pragma once

#include <cstddef>

#include "fleet.h"

namespace outbox::counted {

// Four instances in processes of their own; writers in two of those, in others, and
// by plain SQL. Nothing is lost or repeated, nor out of order where there is one.
void share(const chaos::TemporaryDatabase& database, std::size_t events,
           const FleetOptions& options = {});

// The same while one instance is killed, one is stopped beyond its lease and its
// locks and continued, and one joins: what these held may be repeated.
void share_through_faults(const chaos::TemporaryDatabase& database, std::size_t events,
                          FleetOptions options = {});

}  // namespace outbox::counted
