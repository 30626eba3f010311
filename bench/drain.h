// Draining a store by the library.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "harness.h"
#include "outbox/outbox.h"
#include "subject.h"

namespace outbox::bench {

inline const Logger kSilent = [](const LogRecord&) {};

// A listener that only counts.
Listeners counting(std::atomic<std::size_t>& delivered);

// Delivers all that is pending to such a listener; seconds from start() until the last
// update has been acknowledged.
double drain_ours(std::shared_ptr<Store> store, std::size_t events, Options options);

// Throws unless each was delivered once.
void check_delivered(std::size_t delivered, std::size_t events);

// A variant that measures on a copy of the backlog of its own, and removes it; in
// events a second.
Variant on_copy(std::string name, Subject& subject, const std::string& backlog, std::size_t events,
                std::function<double(const std::string& database)> seconds);

// A closed database with that many pending events.
std::string make_backlog(Subject& subject, std::size_t events, Progress progress = Progress::row);

}  // namespace outbox::bench
