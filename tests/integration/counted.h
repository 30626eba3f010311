// Counts what is delivered of many events: none lost, none twice, in order.
#pragma once

#include <cstddef>
#include <memory>

#include "fleet.h"
#include "outbox/store.h"

namespace outbox::counted {

// Writers, the direct hot path, the reader and listeners that take their time,
// all at once and without order: each event is delivered exactly once.
void deliver_each_once(const std::shared_ptr<Store>& store, std::size_t events);

// On a SQLite file, with order: failing listeners, small queues, restarts in
// between, and two writers for each aggregate, one of them another process that
// knows only SQL.
void keep_order_on_sqlite(std::size_t events);

// On PostgreSQL, four instances in processes of their own; writers in two of
// those, in others, and by plain SQL. Nothing is lost, repeated, or out of order.
void share_on_postgres(std::size_t events, const FleetOptions& options = {});

// The same while one instance is killed, one is stopped beyond its lease and
// continued, and one joins: what these held may be repeated.
void share_through_faults_on_postgres(std::size_t events);

// A database in a folder of its own, gone with the result.
std::shared_ptr<Store> temporary_sqlite();

}  // namespace outbox::counted
