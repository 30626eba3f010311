// Counts what is delivered of many events: none lost, none twice, in order.
#pragma once

#include <cstddef>
#include <memory>

#include "outbox/spi/store.h"

namespace outbox::counted {

// Writers, the direct hot path, the reader and listeners that take their time,
// all at once and without order: each event is delivered exactly once.
void deliver_each_once(const std::shared_ptr<Store>& store, std::size_t events);

// On a SQLite file, with order: failing listeners, small queues, restarts in
// between, and two writers for each aggregate, one of them another process that
// knows only SQL.
void keep_order_on_sqlite(std::size_t events);

// A database in a folder of its own, gone with the result.
std::shared_ptr<Store> temporary_sqlite();

}  // namespace outbox::counted
