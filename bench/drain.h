// Draining a store by the library.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "outbox/outbox.h"
#include "scratch.h"

namespace outbox::bench {

// Delivers all that is pending to a listener that only counts; seconds from
// start() until the last mark has landed.
double drain_ours(std::shared_ptr<Store> store, std::size_t events, Options options);

// A closed database with that many pending events.
std::string make_backlog(Scratch& scratch, std::size_t events);

}  // namespace outbox::bench
